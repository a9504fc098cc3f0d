"""
The errors that this library raises on purpose, as one tree.

::

    ConversationStateError
    ├── InvalidUsageError (ValueError)         an invalid count of tokens
    ├── InvalidPartError (ValueError)          an invalid part of a message
    ├── InvalidMessageError (ValueError)       an invalid message, call or metadata
    ├── InvalidToolError (ValueError)          an invalid tool or parameter
    ├── InvalidDocumentError (ValueError)      an invalid document
    ├── InvalidTranscriptError (ValueError)    no valid view with the newest message
    │   └── DroppedHistoryError                ... with the messages before a position
    ├── BudgetExceededError (ValueError)       no valid view is small enough
    ├── CompactionError (ValueError)           messages no summary can replace
    ├── ConcatError (ValueError)               chunks of different messages
    ├── TemplateError (ValueError)             a template that can't be rendered
    │   └── MissingVariableError (LookupError) ... because a variable is missing
    ├── StreamClosedError (RuntimeError)       a send or read after the end
    ├── BranchError (RuntimeError)             a step without a state of its branch
    ├── FanOutError (ExceptionGroup)           failed steps, and the others' results
    ├── ProviderStreamError (RuntimeError)     a failure that the provider reported
    ├── ParseError (ValueError)                a message without the expected JSON
    ├── UnknownModelError (LookupError)        a model that a registry doesn't have
    ├── UnknownMomentError (LookupError)       an unknown moment, or one not ahead
    ├── UnpricedError (ValueError)             usage without a known price
    ├── MissingVocabularyError (FileNotFoundError)  a missing file of a tokenizer
    ├── StoreError (RuntimeError)              a failed operation of a store
    │   ├── NotSavedError (LookupError)        ... because a name or revision is missing
    │   ├── MirroredNameError                  ... because a host would replace it
    │   ├── StaleHeadError                     ... because another writer saved first
    │   │   └── StaleThreadError               ... in the thread that a graph ran in
    │   └── UnknownOutcomeError                ... or it succeeded; the answer was lost
    ├── MissingExtraError (ImportError)        install conversation-state[...]
    └── DecodeError (ValueError)               bytes or JSON that can't be decoded

Each leaf is also the builtin one would guess. Facts are attributes, and all of
them are arguments of the exception, so errors survive pickling.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from conversation_state._lazy import open_later
from conversation_state.errors._values import (
    ConversationStateError,
    InvalidDocumentError,
    InvalidMessageError,
    InvalidPartError,
    InvalidToolError,
    InvalidUsageError,
    MissingExtraError,
    StreamClosedError,
)

if TYPE_CHECKING:
    from conversation_state.errors._content import (
        BranchError,
        ConcatError,
        DecodeError,
        FanOutError,
        MissingVariableError,
        ParseError,
        Problem,
        ProviderStreamError,
        TemplateError,
        UnknownMomentError,
    )
    from conversation_state.errors._store import (
        MirroredNameError,
        NotSavedError,
        StaleHeadError,
        StaleThreadError,
        StoreError,
        UnknownOutcomeError,
    )
    from conversation_state.errors._trimming import (
        BudgetExceededError,
        CompactionError,
        DroppedHistoryError,
        InvalidTranscriptError,
        MissingVocabularyError,
        UnknownModelError,
        UnpricedError,
    )

__all__ = [
    "BranchError",
    "BudgetExceededError",
    "CompactionError",
    "ConcatError",
    "ConversationStateError",
    "DecodeError",
    "DroppedHistoryError",
    "FanOutError",
    "InvalidDocumentError",
    "InvalidMessageError",
    "InvalidPartError",
    "InvalidToolError",
    "InvalidTranscriptError",
    "InvalidUsageError",
    "MirroredNameError",
    "MissingExtraError",
    "MissingVariableError",
    "MissingVocabularyError",
    "NotSavedError",
    "ParseError",
    "Problem",
    "ProviderStreamError",
    "StaleHeadError",
    "StaleThreadError",
    "StoreError",
    "StreamClosedError",
    "TemplateError",
    "UnknownModelError",
    "UnknownMomentError",
    "UnknownOutcomeError",
    "UnpricedError",
]

# Imported late: messages and states don't raise them, and each file takes its part of
# the package's import.
_CONTENT = f"{__name__}._content"
_STORE = f"{__name__}._store"
_TRIMMING = f"{__name__}._trimming"
__getattr__, __dir__ = open_later(
    __name__,
    {
        "BranchError": _CONTENT,
        "BudgetExceededError": _TRIMMING,
        "CompactionError": _TRIMMING,
        "ConcatError": _CONTENT,
        "DecodeError": _CONTENT,
        "DroppedHistoryError": _TRIMMING,
        "FanOutError": _CONTENT,
        "InvalidTranscriptError": _TRIMMING,
        "MirroredNameError": _STORE,
        "MissingVariableError": _CONTENT,
        "MissingVocabularyError": _TRIMMING,
        "NotSavedError": _STORE,
        "ParseError": _CONTENT,
        "Problem": _CONTENT,
        "ProviderStreamError": _CONTENT,
        "StaleHeadError": _STORE,
        "StaleThreadError": _STORE,
        "StoreError": _STORE,
        "TemplateError": _CONTENT,
        "UnknownModelError": _TRIMMING,
        "UnknownMomentError": _CONTENT,
        "UnknownOutcomeError": _STORE,
        "UnpricedError": _TRIMMING,
    },
)
