"""
The laws that this library promises, checked on other libraries.

Each example is at most ten lines that run by themselves, and asserts what is true of
the release that is installed: the wrong result where a law is broken, the right one
where it is kept. When a peer changes, the example fails and says what to do.
"""
