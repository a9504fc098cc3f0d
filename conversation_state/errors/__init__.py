"""
The errors that this library raises on purpose, as one tree.

    ConversationStateError
    ├── InvalidUsageError (ValueError)         a count no provider can mean
    ├── InvalidPartError (ValueError)          a part that can't be what it says
    ├── InvalidMessageError (ValueError)       a message, a tool call or metadata
    ├── InvalidToolError (ValueError)          a tool no model could be told of
    ├── InvalidDocumentError (ValueError)      a document that can't be what it says
    ├── InvalidTranscriptError (ValueError)    no valid view with the newest message
    │   └── DroppedHistoryError                ... or with what stands before a place
    ├── BudgetExceededError (ValueError)       no valid view is small enough
    ├── CompactionError (ValueError)           messages no summary can stand for
    ├── ConcatError (ValueError)               pieces of different messages
    ├── TemplateError (ValueError)             a template that can't be rendered
    │   └── MissingVariableError (LookupError) ... because it needs one more value
    ├── StreamClosedError (RuntimeError)       sent or read after the end
    ├── BranchError (RuntimeError)             a step that gave no state of its branch
    ├── FanOutError (ExceptionGroup)           steps that failed, and what the rest did
    ├── ProviderStreamError (RuntimeError)     the provider broke off, and said why
    ├── ParseError (ValueError)                a message that doesn't say what it should
    ├── UnknownModelError (LookupError)        a model no registry knows
    ├── UnknownMomentError (LookupError)       a moment a timeline has not, or not ahead
    ├── UnpricedError (ValueError)             spending whose price nobody knows
    ├── MissingVocabularyError (FileNotFoundError)  a tokenizer's file that is not here
    ├── StoreError (RuntimeError)              a store that can't do what was asked
    │   ├── NotSavedError (LookupError)        ... because nothing is saved as that
    │   ├── MirroredNameError                  ... because a host would not read it
    │   ├── StaleHeadError                     ... because somebody else saved first
    │   │   └── StaleThreadError               ... in the thread that a graph ran in
    │   └── UnknownOutcomeError                ... or did it; its answer was lost
    ├── MissingExtraError (ImportError)        install conversation-state[...]
    └── DecodeError (ValueError)               bytes that are no value of ours

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
    from conversation_state.errors._branches import (
        BranchError,
        FanOutError,
        UnknownMomentError,
    )
    from conversation_state.errors._content import (
        ConcatError,
        DecodeError,
        MissingVariableError,
        ParseError,
        Problem,
        ProviderStreamError,
        TemplateError,
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

# What no message or state can raise by itself.
_BRANCHES = f"{__name__}._branches"
_CONTENT = f"{__name__}._content"
_STORE = f"{__name__}._store"
_TRIMMING = f"{__name__}._trimming"
__getattr__, __dir__ = open_later(
    __name__,
    {
        "BranchError": _BRANCHES,
        "BudgetExceededError": _TRIMMING,
        "CompactionError": _TRIMMING,
        "ConcatError": _CONTENT,
        "DecodeError": _CONTENT,
        "DroppedHistoryError": _TRIMMING,
        "FanOutError": _BRANCHES,
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
        "UnknownMomentError": _BRANCHES,
        "UnknownOutcomeError": _STORE,
        "UnpricedError": _TRIMMING,
    },
)
