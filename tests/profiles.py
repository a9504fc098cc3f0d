"""
How much the tests try: the profiles of Hypothesis, and what else depends on them.
"""

from hypothesis import settings

__all__ = ["is_thorough"]

# No test asserts a time, so none fails for being slow on a busy machine; and the
# examples are the same in every run, so that one commit has one result. `make
# fuzz` looks for others (the profile `thorough`).
settings.register_profile("default", max_examples=30, deadline=None, derandomize=True)
settings.register_profile("quick", max_examples=10, deadline=None, derandomize=True)
# For the interpreters beside the one that runs everything: they differ in what
# they do with a value, not in which values there are.
settings.register_profile("brief", max_examples=15, deadline=None, derandomize=True)
settings.register_profile(
    "thorough", max_examples=2_000, deadline=None, derandomize=False
)
# Where a CI server is seen, Hypothesis takes this one of its own by default.
settings.register_profile("ci", settings.get_profile("default"))
settings.load_profile("default")


def is_thorough() -> bool:
    """
    Whether tests leave nothing out, as in `make fuzz`.
    """
    return settings.get_current_profile_name() == "thorough"
