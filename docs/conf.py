"""
Settings of Sphinx, for `make docs`.

The pages are read as they are on a forge: `read_page` gives the index its tables of
contents and the reference its modules, and links to files beside `docs` their names.
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

project = "conversation_state"
project_copyright = "the contributors of conversation_state"
author = "conversation_state contributors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
]
exclude_patterns = ["_static"]

# `name` in a docstring is a name of the code, with a link if the reference has it.
default_role = "py:obj"
# A class of the standard library that another package defines elsewhere, and names
# that a docstring marks as code and that several modules have.
suppress_warnings = ["ref.python", "myst.xref_missing"]

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autodoc_member_order = "groupwise"
autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
# A field that the docstring describes is described once.
napoleon_use_ivar = True
napoleon_custom_sections = [("Source", "returns_style")]
python_display_short_literal_types = True
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "conversation_state"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"navigation_with_keys": True}

REPOSITORY = Path(__file__).resolve().parent.parent
_SECTION = re.compile(r"^## (.+)\n((?:(?!^## ).*\n?)*)", re.MULTILINE)
_PAGE = re.compile(r"\[[^]]+\]\((\w[^):#]*\.md)\)")
_OUTSIDE = re.compile(r"\[([^]]+)\]\(\.\./([^)#\s]*)(?:#[^)\s]*)?\)")


# What several modules export is described in one of them.
_DESCRIBED_ELSEWHERE = "Export, Lost, BrokenLawsError"


def describe_modules() -> Iterator[str]:
    """The directives for all modules that have an ``__all__`` and a public path."""
    for path in sorted((REPOSITORY / project).rglob("*.py")):
        steps = path.relative_to(REPOSITORY).with_suffix("").parts
        steps = steps[:-1] if steps[-1] == "__init__" else steps
        is_public = not any(step.startswith("_") for step in steps)
        if not is_public or "\n__all__ = " not in path.read_text("utf-8"):
            continue

        module = ".".join(steps)
        yield f"\n{module}\n{'-' * len(module)}\n\n.. automodule:: {module}"
        if module in {project, f"{project}.adapters"}:
            continue

        yield "   :members:"
        if module.count(".") > 1:
            yield f"   :exclude-members: {_DESCRIBED_ELSEWHERE}"


def read_page(_app: Any, name: str, source: list[str]) -> None:
    """Give the index its contents, and the reference its modules."""
    if name == "reference":
        source[0] = "\n".join([source[0], *describe_modules(), ""])
        return

    # A file of the repository has no page of its own: its name stands for it.
    source[0] = _OUTSIDE.sub(r"\1 (`\2`)", source[0])
    if name != "index":
        return

    contents = []
    listed: set[str] = set()
    for title, body in _SECTION.findall(source[0]):
        # Each page once, where it is named first.
        named = dict.fromkeys(_PAGE.findall(body))
        pages = [path for path in named if path not in listed]
        listed.update(pages)
        if pages:
            head = ["```{toctree}", ":hidden:", f":caption: {title}", ""]
            contents += ["", *head, *pages, "```"]

    source[0] += "\n".join(
        [*contents, "", "```{toctree}", ":hidden:", "", "reference", "```", ""]
    )


def setup(app: Any) -> None:
    """Called by Sphinx."""
    app.connect("source-read", read_page)
