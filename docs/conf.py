"""
Settings of Sphinx, for `make docs`.

The sources it reads are made by `tools.site_sources`; what it does beyond its own
extensions is in `tools.site_extension`.
"""

from pathlib import Path

project = "conversation_state"
project_copyright = "the contributors of conversation_state"
author = "conversation_state contributors"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_codeautolink",
    "tools.site_extension",
]

root_doc = "index"
# `name` in a docstring is a name of the code, with a link if the reference has it.
default_role = "py:obj"

myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 3

autosummary_generate = False
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
napoleon_custom_sections = [("Source", "returns_style")]
python_display_short_literal_types = True
maximum_signature_line_length = 80
toc_object_entries_show_parents = "hide"
add_module_names = False

html_theme = "furo"
html_title = "conversation_state"
html_extra_path = [str(Path(__file__).parent.parent / "build" / "docs" / "extra")]
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {
    "navigation_with_keys": True,
}
