"""
What DESIGN promises in figures, measured beside peers in one process.

A module for each subject; its docstring says what is claimed, and `rows` what
was measured. Timings are printed, never asserted; what was timed is checked.
"""
