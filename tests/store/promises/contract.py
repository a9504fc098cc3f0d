"""What a backend promises, and what a store promises over any backend."""

from tests.store.promises.appending import AppendPromises
from tests.store.promises.branches import BranchPromises
from tests.store.promises.deletion import DeletionPromises
from tests.store.promises.heads import HeadPromises
from tests.store.promises.names import NamePromises
from tests.store.promises.notes import NotePromises
from tests.store.promises.records import RecordPromises
from tests.store.promises.references import ReferencePromises
from tests.store.promises.rows import RowPromises
from tests.store.promises.saving import SavingPromises
from tests.store.promises.states import StatePromises
from tests.store.promises.steps import StepPromises
from tests.store.promises.timelines import TimelinePromises
from tests.store.promises.viewing import ViewPromises

__all__ = ["StoreContract", "StorePromises"]


class StoreContract(StatePromises, RowPromises):
    """
    The promises of a backend, to be subclassed for one; see `case.StoreCase` for what
    the subclass says of it.
    """


class StorePromises(
    SavingPromises,
    AppendPromises,
    ViewPromises,
    HeadPromises,
    NamePromises,
    BranchPromises,
    NotePromises,
    StepPromises,
    TimelinePromises,
    DeletionPromises,
    RecordPromises,
    ReferencePromises,
    StoreContract,
):
    """The promises of a store, and those of its backend."""
