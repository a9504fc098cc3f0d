"""
Templates: messages from variables, in three syntaxes.

A `Template` is a value: messages with variables in their texts, and placeholders for
other messages. `Template.format` returns new messages.

Templates are code: whoever writes one is trusted. Their *values* are not: a value is
copied to plain data before a template sees it, it is never rendered as a template, and
what comes out is bounded: a text to `MAX_CHARACTERS`, the variables of a call to
`MAX_VALUES`.

- ``fstring`` has no attributes (``{user.name}``), conversions (``{x!r}``), positions
  (``{0}``), or fields inside formats.
- ``jinja2`` is Jinja2's immutable sandbox without a loader: no ``include``, ``import``
  or ``extends``.
- ``go`` is gotpl, Go's ``text/template``, without ``call``.
"""

from conversation_state.templates._template import Placeholder, Template, render
from conversation_state.templates._values import MAX_CHARACTERS, MAX_VALUES

__all__ = ["MAX_CHARACTERS", "MAX_VALUES", "Placeholder", "Template", "render"]
