"""
LangChain's own classes, imported when somebody needs one.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from conversation_state.adapters._langchain._words import CLASSES
from conversation_state.errors import MissingExtraError

__all__ = ["classes", "document_class", "names"]


@cache
def classes() -> Mapping[str, type[Any]]:
    """
    The classes of messages, by name.

    Raises:
        MissingExtraError:
            If LangChain is not installed.
    """
    try:
        from langchain_core import messages  # noqa: PLC0415 - an extra
    except ImportError as error:
        msg = "what LangChain's messages are made of"
        raise MissingExtraError(msg, "langchain") from error

    return {name: getattr(messages, name) for name in CLASSES}


@cache
def names() -> Mapping[type[Any], str]:
    """
    The names of those classes. What is derived from one is none of them.
    """
    return {kind: name for name, kind in classes().items()}


@cache
def document_class() -> type[Any]:
    """
    The class of what retrievers find.
    """
    from langchain_core.documents import Document  # noqa: PLC0415 - an extra

    return Document
