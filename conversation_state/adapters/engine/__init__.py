"""
The engine of formats: reading with problems by path, notes, media, arguments, usage,
streams, and writing with what is lost.

For those who write a format, or a host that needs one; `docs/new-adapter.md` has a
table of what is for what. What is written once, whatever the format, is here; what one
provider does is in the package of its format.
"""
