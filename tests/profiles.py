"""How much the tests try: the profiles of Hypothesis, and what else depends on them."""

from hypothesis import HealthCheck, Phase, settings
from hypothesis.internal.conjecture import providers
from hypothesis.internal.constants_ast import Constants

__all__ = ["fewer", "is_thorough"]

# No test asserts a time, so none fails for being slow on a busy machine; and the
# examples are the same in every run, so that one commit has one result, beside a CI
# server too, where Hypothesis has other defaults. `make fuzz` looks for other examples
# (the profile `thorough`).
_SAME = settings(
    deadline=None,
    derandomize=True,
    print_blob=False,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("default", _SAME, max_examples=20)
# For what pages and docstrings show.
settings.register_profile("quick", _SAME, max_examples=5)
# For the interpreters beside the one that runs everything: they differ in what
# they do with a value, not in which values there are.
settings.register_profile("brief", _SAME, max_examples=5)
# For `make mutants`: the same examples; a failure is enough, however large.
_NOT_SHRUNK = [Phase.explicit, Phase.reuse, Phase.generate, Phase.target]
settings.register_profile("mutants", _SAME, max_examples=20, phases=_NOT_SHRUNK)
settings.register_profile("thorough", _SAME, max_examples=2_000, derandomize=False)
settings.load_profile("default")


def fewer() -> settings:
    """The settings of tests that try dozens of things with each example."""
    return settings(max_examples=max(settings().max_examples // 3, 1))


def is_thorough() -> bool:
    """Whether tests leave nothing out, as in `make fuzz`."""
    return settings().max_examples >= settings.get_profile("thorough").max_examples


_read_constants = providers._get_local_constants


def _choose_constants() -> Constants:
    # Hypothesis draws constants from the source of what is imported, which depends on
    # the files that run, and in which process: only where examples differ anyway.
    return _read_constants() if is_thorough() else providers._local_constants


providers._get_local_constants = _choose_constants
