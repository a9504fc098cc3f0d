"""
Templates: messages from variables, in three syntaxes.

A `Template` is a value: messages whose texts have gaps, and places where
other messages go. `Template.format` fills it and leaves it as it was.

What lives here: three syntaxes for the gaps, and what each may cost and reach.
Templates *and* values may be hostile: a template reaches the values it is
given and nothing else, what values say is never taken for a template, and
both end in a `TemplateError` rather than fill the memory or never end. What
does not: the messages themselves (`messages`), and reading values out of a
model's text (`parsing`).
"""

from conversation_state.templates._bounds import (
    MOST_CHARACTERS,
    MOST_STEPS,
    MOST_TEMPLATE_CHARACTERS,
    MOST_VALUES,
    MOST_WIDTH,
)
from conversation_state.templates._template import Placeholder, Template, render

__all__ = [
    "MOST_CHARACTERS",
    "MOST_STEPS",
    "MOST_TEMPLATE_CHARACTERS",
    "MOST_VALUES",
    "MOST_WIDTH",
    "Placeholder",
    "Template",
    "render",
]
