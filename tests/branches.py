"""Steps that other processes can import."""

import os
import sys
import time
from functools import partial
from pathlib import Path

from conversation_state import Aggregator, Usage
from conversation_state.parallel import fan_out, save_progress

USAGE = Usage(8, 2)


class Unpicklable(Exception):  # noqa: N818 - a word to look for
    """An error that can't be sent."""

    def __reduce__(self):
        raise TypeError("stays here")


class Unreadable(Exception):  # noqa: N818 - a word to look for
    """An error that can be sent and not read."""

    def __init__(self, number, word):
        super().__init__(f"{number} {word}")


class Unchangeable(Exception):  # noqa: N818 - a word to look for
    """An error that refuses any change, as frozen ones do."""

    def __setattr__(self, name, value):
        raise AttributeError(f"can't set {name}")


class Unsayable(Exception):  # noqa: N818 - a word to look for
    """An error whose `str` fails."""

    def __str__(self):
        raise ValueError("no words")


class Refused(Exception):  # noqa: N818 - a word to look for
    """An error as they should be."""


class Stop(BaseException):
    """An interrupt of the program's own."""


def add_text(text: str, state: Aggregator) -> Aggregator:
    """A message and its cost."""
    return state.add_user_prompt(text).add_usage(USAGE)


def count_messages(state: Aggregator) -> Aggregator:
    """How many messages there were."""
    return add_text(str(len(state)), state)


def add_text_slowly(seconds: float, text: str, state: Aggregator) -> Aggregator:
    """The same after a while."""
    time.sleep(seconds)
    return add_text(text, state)


def add_text_after(path: str, text: str, state: Aggregator) -> Aggregator:
    """The same once there is a file; in a minute at most."""
    end = time.monotonic() + 60
    while not Path(path).exists() and time.monotonic() < end:
        time.sleep(0.01)

    return add_text(text, state)


def fail(kind: type[Exception], state: Aggregator) -> Aggregator:
    """Nothing but a cost, and an error."""
    save_progress(add_text("half of it", state))
    raise kind(3, "words")


def refused(state: Aggregator) -> Aggregator:
    """The same with an error of one argument."""
    save_progress(add_text("half of it", state))
    raise Refused("too many requests")


def die(state: Aggregator) -> Aggregator:
    """The end of the process."""
    save_progress(add_text("half of it", state))
    os._exit(3)


def die_once(path: str, state: Aggregator) -> Aggregator:
    """The same, unless it was done before."""
    if not Path(path).exists():
        Path(path).touch()
        os._exit(3)

    return add_text("again", state)


def leave(state: Aggregator) -> Aggregator:
    """A cost, and a SystemExit."""
    save_progress(add_text("half of it", state))
    sys.exit(3)


def process(state: Aggregator) -> Aggregator:
    """The number of the process."""
    return add_text(str(os.getpid()), state)


def fan_out_and_fail(state: Aggregator) -> Aggregator:
    """A fan-out in a fan-out, of which one step fails."""
    return fan_out(state, [refused, partial(add_text, "inner")]).state
