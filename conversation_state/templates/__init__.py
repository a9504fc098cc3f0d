"""
Templates: messages from variables, in three syntaxes.

A `Template` is a value: messages with variables in their texts, and placeholders for
other messages. `Template.format` returns new messages.

What lives here: three syntaxes, and the limits of what each can reach and cost.
Templates *and* values may be hostile: a template reaches only the values it is
given, values are never rendered as templates, and both end in a `TemplateError`
before they exhaust time or memory. What does not: the messages themselves
(`messages`), and parsing a model's text (`parsing`).
"""

from conversation_state.templates._template import Placeholder, Template, render
from conversation_state.templates._values import (
    MAX_CHARACTERS,
    MAX_STEPS,
    MAX_TEMPLATE_CHARACTERS,
    MAX_VALUES,
    MAX_WIDTH,
)

__all__ = [
    "MAX_CHARACTERS",
    "MAX_STEPS",
    "MAX_TEMPLATE_CHARACTERS",
    "MAX_VALUES",
    "MAX_WIDTH",
    "Placeholder",
    "Template",
    "render",
]
