"""What a store promises over any backend: the tests of each kind of store."""

from tests.store.promises.branches import BranchPromises
from tests.store.promises.deletion import DeletionPromises
from tests.store.promises.heads import HeadPromises
from tests.store.promises.names import NamePromises
from tests.store.promises.notes import NotePromises
from tests.store.promises.records import RecordPromises
from tests.store.promises.saving import SavingPromises
from tests.store.promises.steps import StepPromises
from tests.store.promises.timelines import TimelinePromises

__all__ = ["StorePromises"]


class StorePromises(
    SavingPromises,
    HeadPromises,
    NamePromises,
    BranchPromises,
    NotePromises,
    StepPromises,
    TimelinePromises,
    DeletionPromises,
    RecordPromises,
):
    """The promises of a store, and those of its backend."""
