"""
What the documentation's site has beyond what Sphinx and its extensions do.

- `conversation_state.Aggregator` leads to the page of the class, which another
  module owns.
- Signatures and attributes of attrs classes have their defaults and types.
- A name of the code in a page, between single backticks, is a link to the
  reference if only one object has this name.
- A public name that the reference lacks is a warning, and so an error in a build
  that takes no warnings.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

import attrs
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.environment import BuildEnvironment
from sphinx.util import logging

from tools.public_names import PACKAGE, list_public_modules, list_public_names

__all__ = ["setup"]

logger = logging.getLogger(__name__)
ATTRS_DEFAULT = re.compile(r"attr_dict\['(\w+)'\]\.default")
NAME = re.compile(r"(?P<name>[A-Za-z_]\w*(?:\.\w+)*)(?:\(\))?")


def note_exports(_app: Sphinx, env: BuildEnvironment) -> None:
    """
    Give every public name an entry in the inventory under each module that exports
    it, and warn of those that have no place in the reference.
    """
    domain = env.domains.python_domain
    for public in list_public_names():
        found = domain.objects.get(public.path)
        if found is None:
            logger.warning("the reference has no place for %s", public.path)
        elif public.module != public.owner:
            name = f"{public.module}.{public.name}"
            domain.objects[name] = found._replace(aliased=True)

    env.site_names = index_names(env)


def index_names(env: BuildEnvironment) -> Mapping[str, str]:
    """
    What each name that a page may use stands for; only names of one object.

    A class or a function is known by its own name and by its whole path, a method
    also by that of its class.
    """
    domain = env.domains.python_domain
    modules = sorted(list_public_modules(), key=len, reverse=True)
    meanings: dict[str, set[str]] = defaultdict(set)
    members: set[str] = set()
    for path, entry in domain.objects.items():
        if entry.aliased or entry.objtype == "module":
            continue

        owner = next((each for each in modules if path.startswith(f"{each}.")), None)
        if owner is None:
            continue

        inner = path.removeprefix(f"{owner}.")
        below = path.removeprefix(f"{PACKAGE}.")
        short = f"{owner.rpartition('.')[2]}.{inner}"
        for name in {path, inner, below, short}:
            meanings[name].add(path)
        if "." in inner:
            members.add(inner.rpartition(".")[2])

    # `join` alone may be the function or the method.
    return {
        name: next(iter(paths))
        for name, paths in meanings.items()
        if len(paths) == 1 and name not in members
    }


def show_defaults(
    _app: Sphinx,
    _kind: str,
    _name: str,
    value: Any,
    _options: object,
    signature: str | None,
    returns: str | None,
) -> tuple[str | None, str | None] | None:
    """
    Show the defaults of the fields of an attrs class, whose own signature refers to
    them by the names that attrs has for them.
    """
    if not isinstance(value, type) or not attrs.has(value):
        return None

    defaults = {field.name: field.default for field in attrs.fields(value)}

    def show(match: re.Match[str]) -> str:
        default = defaults[match[1]]
        made = default is attrs.NOTHING or isinstance(default, attrs.Factory)  # type: ignore[arg-type]
        return "..." if made else repr(default)

    return ATTRS_DEFAULT.sub(show, signature or "") or None, returns


def move_types(
    _app: Sphinx,
    _kind: str,
    _name: str,
    _value: object,
    _options: object,
    lines: list[str],
) -> None:
    """
    Show the type of an attribute beside its name: Napoleon writes it below its
    description.
    """
    start = None
    for at, line in enumerate(list(lines)):
        if line.startswith(".. attribute::"):
            start = at
        elif line.startswith("   :type: ") and start is not None:
            del lines[at]
            lines.insert(start + 1, line)


def unlink_type(_app: Sphinx, doctree: nodes.document) -> None:
    """
    Leave the builtin `type` in annotations without a link: Sphinx would take an
    attribute of this name for it.
    """
    for node in list(doctree.findall(addnodes.pending_xref)):
        if node.get("reftype") == "class" and node.get("reftarget") == "type":
            node.replace_self(node.children)


def find_target(env: BuildEnvironment, text: str) -> str | None:
    """The path of the object that *text* names, if it does."""
    match = NAME.fullmatch(text)
    return env.site_names.get(match["name"]) if match else None


def make_reference(
    app: Sphinx, source: str, target: str, content: nodes.Node
) -> nodes.reference:
    """A link from the document *source* to the object *target*."""
    entry = app.env.domains.python_domain.objects[target]
    uri = app.builder.get_relative_uri(source, entry.docname)
    return nodes.reference(
        "", "", content, internal=True, refuri=f"{uri}#{entry.node_id}", reftitle=target
    )


def find_names(doctree: nodes.document) -> Iterator[nodes.literal]:
    """The code in the running text of a page."""
    for node in list(doctree.findall(nodes.literal)):
        parents = []
        parent = node.parent
        while parent is not None:
            parents.append(parent)
            parent = parent.parent
        if not any(isinstance(each, nodes.reference | nodes.title) for each in parents):
            yield node


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Make links of the names of the code in a page."""
    if docname.startswith("reference/"):
        return

    for node in find_names(doctree):
        if target := find_target(app.env, node.astext()):
            node.replace_self(make_reference(app, docname, target, node.deepcopy()))


def resolve_name(
    app: Sphinx, env: BuildEnvironment, node: Any, content: nodes.Node
) -> nodes.reference | None:
    """A link for a name in a docstring that is not of the same module."""
    if node.get("refdomain") != "py":
        return None

    target = find_target(env, node["reftarget"])
    return target and make_reference(app, node["refdoc"], target, content)


def setup(app: Sphinx) -> dict[str, object]:
    """Called by Sphinx."""
    app.connect("autodoc-process-signature", show_defaults)
    # After Napoleon, and before links are made of the names in code blocks.
    app.connect("autodoc-process-docstring", move_types, priority=900)
    app.connect("env-updated", note_exports, priority=100)
    app.connect("doctree-read", unlink_type)
    app.connect("doctree-resolved", link_names)
    app.connect("missing-reference", resolve_name)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
