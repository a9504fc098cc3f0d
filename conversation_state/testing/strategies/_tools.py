"""Tools, what they take, documents and templates."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from conversation_state.documents import Document
from conversation_state.templates import Placeholder, Template
from conversation_state.testing._drawing import (
    build_class,
    draw_evenly,
    few,
    few_fields,
    once,
    optional,
    rarely,
)
from conversation_state.testing.strategies._messages import messages
from conversation_state.testing.strategies._values import (
    FLOATS,
    INTEGERS,
    json_values,
    metadata,
    texts,
    unknown_fields,
)
from conversation_state.tools import Parameter, ToolInfo

_VALUES: dict[str, SearchStrategy[Any]] = {
    "string": texts(),
    "integer": INTEGERS,
    "number": FLOATS | INTEGERS,
    "boolean": st.booleans(),
    "null": st.none(),
}


@once
def _parameter_names() -> SearchStrategy[str]:
    # `type` is what a JSON Schema has, too.
    return st.sampled_from(["city", "type"]) | texts(min_size=1)


def _parameter_schemas(
    required: SearchStrategy[bool], levels: int
) -> SearchStrategy[Parameter]:
    common = {"description": texts(), "required": required}
    scalars: list[SearchStrategy[Parameter]] = []
    for kind, values in _VALUES.items():
        enum = rarely(st.just([]), few(values, unique=True))
        scalars.append(build_class(Parameter, type=st.just(kind), enum=enum, **common))

    if not levels:
        return st.one_of(scalars)

    # Items have no name, so `required` can't list them.
    items = _parameter_schemas(st.just(value=False), levels - 1)
    inner = _parameter_schemas(st.booleans(), levels - 1)
    properties = few_fields(_parameter_names(), inner)
    array, record = st.just("array"), st.just("object")
    return rarely(
        st.one_of(scalars),
        draw_evenly(
            build_class(Parameter, type=array, items=st.none() | items, **common),
            build_class(Parameter, type=record, properties=properties, **common),
        ),
    )


@once
def parameters() -> SearchStrategy[Parameter]:
    """
    Parameters of every type, up to four levels of them; shrink to an optional text
    without a description.
    """
    return _parameter_schemas(st.booleans(), 3)


@once
def _json_schemas() -> SearchStrategy[dict[str, Any]]:
    return st.builds(
        lambda more, says: {**more, **says},
        few_fields(
            st.sampled_from(["properties", "required", "$defs"]) | texts(),
            json_values(),
        ),
        st.sampled_from(
            [
                {"type": "object"},
                {"type": ["object", "null"]},
                {"$ref": "https://example.org/schema"},
                {"anyOf": [{"type": "object"}]},
                {"properties": {"type": "string"}},
            ]
        ),
    )


@once
def tool_infos() -> SearchStrategy[ToolInfo]:
    """
    Tools that take nothing, parameters, none of them, or what a JSON Schema says;
    shrink to one named "city" that takes nothing.
    """
    takes = st.one_of(
        st.none(), few_fields(_parameter_names(), parameters()), _json_schemas()
    )
    beside = optional(metadata=metadata(), unknown=unknown_fields())
    return st.builds(
        lambda name, description, takes, beside: ToolInfo(
            name, description, takes, **beside
        ),
        _parameter_names(),
        texts(),
        takes,
        beside,
    )


@once
def documents() -> SearchStrategy[Document]:
    """
    Documents, some with what a search says of them, some with something else in its
    place; shrink to empty ones.
    """
    search_fields = optional(
        score=FLOATS,
        sub_indexes=few(texts()),
        dense_vector=few(FLOATS),
        sparse_vector=few_fields(st.integers(-(2**63), 2**63 - 1), FLOATS),
        dsl=metadata(),
        extra_info=texts(),
    )
    # Any values under the metadata keys of search fields, because a user may have set
    # these keys.
    keys = ["_score", "_sub_indexes", "_dense_vector", "_sparse_vector"]
    foreign = metadata() | st.fixed_dictionaries(
        {}, optional=dict.fromkeys(keys, json_values())
    )
    fields = st.fixed_dictionaries(
        {"id": texts(), "content": texts()},
        optional={"metadata": foreign, "unknown": unknown_fields()},
    )
    return st.builds(_make_document, fields, search_fields)


def _make_document(fields: dict[str, Any], search_fields: dict[str, Any]) -> Document:
    document = Document(**fields)
    for name, value in search_fields.items():
        document = getattr(document, f"with_{name}")(value)

    return document


@once
def placeholders() -> SearchStrategy[Placeholder]:
    """Places for messages; shrink to a required one, of "0"."""
    return st.builds(Placeholder, texts(min_size=1), st.booleans())


@once
def templates() -> SearchStrategy[Template]:
    """
    Templates of up to three items, in any syntax; what their messages say need not
    be right in it; shrink to nothing, in Python's syntax.
    """
    items = few(messages() | placeholders())
    return st.builds(
        lambda items, syntax: Template(*items, syntax=syntax),
        items,
        st.sampled_from(["fstring", "jinja2", "go"]),
    )
