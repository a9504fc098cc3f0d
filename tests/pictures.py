"""
The pictures in the documentation that the library draws.

    python -m tests.pictures

writes them anew, those of pages with Chromium; `tests/test_pages.py` holds the drawing
of views to what is drawn now, and the pages to the words in them.
"""

import json
import os
import shutil
from pathlib import Path

from conversation_state import (
    Aggregator,
    AssistantMessage,
    SystemMessage,
    Timeline,
    TokenBudget,
    ToolCall,
    ToolMessage,
    Usage,
    fit,
    trim,
)
from conversation_state.adapters import openai_chat
from conversation_state.diffing import diff
from conversation_state.messages import ResponseMeta
from conversation_state.pages import (
    draw_difference,
    draw_fragment,
    draw_views,
    make_page,
    read_history,
)
from conversation_state.pages._documents import write_document
from conversation_state.pages._live import draw_name
from conversation_state.pages._markup import Markup, Words
from conversation_state.pages._requests import PageQuery
from conversation_state.store import open_store
from conversation_state.trimming import clear_tool_results, compact

ROOT = Path(__file__).resolve().parent.parent
VIEWS = ROOT / "docs" / "view.svg"
# How wide the pictures of pages are, in pixels; higher ones are cut.
WIDTHS = {
    "page": 1_100,
    "undo": 720,
    "difference": 720,
    "overlay": 720,
    "store": 1_100,
    "live": 1_200,
    "live-narrow": 400,
    "live-seen": 1_200,
    "live-chat": 400,
    "live-compared": 1_200,
}
HIGHEST = 640


def load_longest():
    """The conversation of the example file with the most messages, as a state."""
    lines = (ROOT / "examples" / "travel_desk.jsonl").read_text("utf-8").splitlines()
    chats = [json.loads(line)["messages"] for line in lines]
    return Aggregator.new(messages=openai_chat.load(max(chats, key=len)))


def sum_up(messages):
    """What a model would write; its length is what matters here."""
    return SystemMessage(f"Summary of {len(messages)} messages. " + "So it went. " * 12)


def sum_up_older_half(view):
    """A step that sums up the older messages, between two turns."""
    turns = [e.seq for e in view.elements if e.role == "user"]
    middle = next(seq for seq in turns if seq >= len(view.original) // 2)
    first = next(e.seq for e in view.elements if e.role != "system")
    return compact(range(first, middle), sum_up)(view)


def draw_all_views():
    """What views of one conversation keep."""
    state = load_longest()
    whole = trim(state, None)
    fixed = sum(e.tokens for e in whole.elements if e.role == "system")
    budget = TokenBudget(context_window=fixed + (whole.total_tokens - fixed) // 2)
    return draw_views(
        {
            "the whole conversation": whole,
            "fit()": trim(state, budget),
            "clear_tool_results(keep=1), fit()": trim(
                state, budget, clear_tool_results(keep=1), fit()
            ),
            "compact(the older turns), fit()": trim(
                state, budget, sum_up_older_half, fit()
            ),
        }
    )


def make_trip():
    """A conversation that went two ways, with what each cost."""
    asked = (
        Aggregator.new()
        .add(SystemMessage("You are a travel agent. Answer briefly."))
        .add_user_prompt("Where to this weekend?")
    )
    sea = asked.add_assistant_message(
        "To the sea: the train to Ancona leaves at 8:10 and takes three hours."
    ).add_usage(Usage(1_240, 96), key="sea", model="gpt-4o")
    price = sea.add_user_prompt("How much is it?").add_assistant_message(
        "38 euros, one way."
    )
    hills = asked.add_assistant_message(
        "To the hills: the train to Sulden leaves at 9:40 and takes three hours."
    ).add_usage(Usage(1_240, 110), key="hills", model="claude-sonnet-4-5")
    return asked, sea, price, hills


def make_timeline():
    """The same, undone and asked again."""
    asked, sea, price, hills = make_trip()
    return (
        Timeline.begin(asked, "asked")
        .commit(sea)
        .commit(price)
        .goto("asked")
        .commit(hills, "hills")
    )


def make_view():
    """A view that drops the oldest turn and shows a tool's result in other words."""
    state = make_trip()[2]
    found = ToolMessage("Hotel Adria, 3 stars, 90 euros. " * 60, tool_call_id="1")
    state = (
        state.add_user_prompt("Find a hotel.")
        .add_tool_call(ToolCall("1", "find_hotels", '{"place": "Ancona"}'))
        .add_tool_response(found)
        .add_assistant_message("The Adria has a room for 90 euros.")
        .add_user_prompt("And for two nights?")
    )
    budget = TokenBudget(context_window=60)
    return trim(state, budget, clear_tool_results(keep=0), fit())


def make_history():
    """A name in a store that was rolled back."""
    asked, sea, price, hills = make_trip()
    with open_store("memory:") as store:
        store.save("trip", asked)
        store.save("trip", sea, label="sea")
        store.save("trip", price)
        store.rollback("trip", 1)
        state = store.load("trip").extend([hills[-1]])
        usage = hills.ledger[-1].usage
        state = state.add_usage(usage, key="hills", model="claude-sonnet-4-5")
        store.save("trip", state, label="hills")
        history = read_history(store, "trip")

    # Not when the picture was made.
    states = [each._replace(saved_at=None) for each in history.states]
    return history._replace(states=tuple(states))


def draw_live(**asked):
    """The live page of a trip with calls, a table and a branch that was left."""
    with open_store("memory:") as store:
        state = Aggregator.new([SystemMessage("You are a travel agent. Be brief.")])
        state = state.add_user_prompt(
            "Where should we go in **May**?\n\n1. hiking\n2. `quiet` places"
        )
        store.save("trip", state)
        store.save("trip", _answer(state, "How about Cinque Terre?", 150), label="sea")
        store.rollback("trip", 1)
        calls = [
            ToolCall("1", "trains", '{"to": "St. Moritz", "after": "12:00"}'),
            ToolCall("2", "weather", '{"city": "Bern"}'),
        ]
        state = _answer(store.load("trip"), "The Engadin. Let me look.", 210, calls)
        state = state.extend(
            [
                ToolMessage('{"at": "12:30", "change": "Chur"}', tool_call_id="1"),
                ToolMessage("It is down.", tool_call_id="2", is_error=True),
            ]
        )
        store.save("trip", state)
        table = (
            "By train, change in *Chur*:\n\n| dep | arr |\n|---|---|\n| 12:30 | 16:40 |"
        )
        store.save("trip", _answer(state, table, 330))
        return _write_live(store, "trip", **asked)


def draw_long():
    """What a model sees of a longer conversation of a travel desk, with a budget."""
    with open_store("memory:") as store:
        store.save("lisbon-workshop", load_longest())
        return _write_live(store, "lisbon-workshop", limit=6_500)


def draw_chat():
    """A chat with two answers to one question."""
    with open_store("memory:") as store:
        asked = Aggregator.new().add_user_prompt("Where to, in May?")
        sea = asked.add_assistant_message("To the *sea*: Cinque Terre.")
        hills = asked.add_assistant_message("Into the hills: the **Engadin**.")
        timeline = Timeline.begin(asked).commit(sea).undo().commit(hills)
        timeline = timeline.commit(hills.add_user_prompt("How do we get there?"))
        store.save_timeline("chat", timeline)
        return _write_live(store, "chat")


def _write_live(store, name, **asked):
    query = PageQuery(name, **asked)
    page = draw_name(store, query, Words(), may_write=True, has_prices=True)
    return write_document(
        Markup(name),
        page.facts,
        *page.content,
        with_tree=True,
        home="/",
        tools=page.tools,
    )


def _answer(state, text, tokens, calls=()):
    response = ResponseMeta("stop", Usage(tokens, 40), model="gpt-4o")
    message = AssistantMessage(text, tool_calls=list(calls), response=response)
    return state.add_response(message, key=text)


def draw_all_pages():
    """The pages and fragments that are shown as pictures, by their names."""
    _, _, price, hills = make_trip()
    timeline, view = make_timeline(), make_view()
    view_of_trip = trim(hills, TokenBudget(context_window=50))
    return {
        "page": make_page(timeline, title="A trip", view=view_of_trip),
        "undo": draw_fragment(timeline),
        "difference": draw_difference(diff(price, hills), names=("sea", "hills")),
        "overlay": draw_fragment(view),
        "store": make_page(make_history(), title="trip"),
        "live": draw_live(),
        "live-narrow": draw_live(),
        "live-seen": draw_long(),
        "live-chat": draw_chat(),
        "live-compared": draw_live(at=5, beside=2),
    }


def write_pictures():
    """Write all of them."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - slow

    VIEWS.write_text(draw_all_views(), encoding="utf-8")
    path = os.environ.get("CHROMIUM") or shutil.which("chromium")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=path, args=["--no-sandbox"])
        for name, html in draw_all_pages().items():
            wide = WIDTHS[name]
            tab = browser.new_page()
            if name in ("live-narrow", "live-seen"):
                tab.emulate_media(color_scheme="dark")

            tab.set_viewport_size({"width": wide, "height": HIGHEST})
            tab.set_content(f"<!doctype html>{html}")
            high = tab.evaluate("Math.ceil(document.body.scrollHeight) + 16")
            tab.screenshot(
                path=ROOT / "docs" / f"{name}.png",
                clip={"x": 0, "y": 0, "width": wide, "height": min(high, HIGHEST)},
            )
            tab.close()

        browser.close()


if __name__ == "__main__":
    write_pictures()
