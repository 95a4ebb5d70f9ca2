"""Sessions of pi over other APIs, and one that is a single prompt."""

from __future__ import annotations

from tests.support import blocks, texts
from tests.support.session import PiSession, Use
from tests.support.stories import tidewatch as tw
from tests.support.stories.chores import Routine
from tests.support.story import Story
from tests.support.variants import GeminiSession, ResponsesSession
from tests.support.workspace import Workspace

_ASKED = (
    (
        "Readings arrive late when two gauges share a modem. Find out where the time goes.",
        (
            "The two gauges wait for the same lease. Each poll holds it for the whole round trip, so the second one starts "
            "when the first has its answer. Releasing the lease before the answer is parsed takes 40 % off."
        ),
    ),
    (
        "Do that, and keep the old behaviour for stations with one gauge.",
        "The lease is released after the last byte now, and stations with one gauge never take it.",
    ),
    (
        "Is anything else holding it longer than it should?",
        "One place: `report` takes the lease to count readings. A count needs no lease, so I removed it.",
    ),
    ("Write a test for that.", "Added: two gauges on one modem, answered in parallel, in under half the time."),
    ("What did the change cost in memory?", "Nothing that shows: 18.2 MB before, 18.3 MB after, over a full day."),
    ("Fine. Update the changelog.", "The changelog names the change under *Unreleased*."),
)


def responses() -> PiSession:
    """Return a session over OpenAI Responses, with parallel calls and reasoning items."""
    made = ResponsesSession(seed="pi-responses")
    made.opening("medium")
    desk = Workspace(made, tw.files())
    routine = Routine(desk, "pi-responses", 1800)
    for number, (asked, answer) in enumerate(_ASKED):
        made.user(asked)
        if number == 0:
            _look_around(desk)
        if number == 1:
            _leftover(made)
        routine.steps((5, 6, 5, 4, 3, 2)[number])
        thought = "" if number % 2 else f"**Answering**\n\n{texts.prose(blocks.dice('pi-responses', number), 2)}"
        made.assistant(made.think(thought), answer)
    return made


def _look_around(desk: Workspace) -> None:
    names = ("src/tidewatch/store.py", "src/tidewatch/readings.py", "docs/operations.md")
    uses = [Use("read", {"path": name}, desk.files[name]) for name in names]
    desk.session.parallel(uses, thinking="**Looking at the code**\n\nThe three places where a poll can wait.")
    desk.look("out/lease-times.png", 60, thinking="")


def _leftover(made: ResponsesSession) -> None:
    """A call that kept the text it was streamed as."""
    arguments = {"path": "src/tidewatch/lease.py", "content": texts.python_source(blocks.dice("lease"), 6)}
    part = made.call("write", arguments, partialJson=blocks.stringify(arguments))
    made.assistant(made.think(""), made.say("I write the lease as a class of its own.", "commentary"), part)
    size = len(arguments["content"].encode())
    made.result(part["id"], f"Successfully wrote {size} bytes to src/tidewatch/lease.py", "write")


def gemini() -> PiSession:
    """Return a session over Gemini: unsigned thinking, signed calls."""
    made = GeminiSession(seed="pi-gemini")
    made.opening("medium")
    routine = Routine(Workspace(made, tw.files()), "pi-gemini", 1900)
    for number, (asked, answer) in enumerate(_ASKED):
        made.user(asked)
        routine.steps((9, 6, 6, 4, 3, 2)[number])
        made.assistant(answer)
    return made


def one_prompt() -> PiSession:
    """Return a session of a single prompt and 120 steps: too few turns for any rule that counts turns."""
    made = PiSession(seed="pi-one-prompt").opening()
    made.user("Move the store from one JSON file to SQLite, module by module, and keep the tests green all the way.")
    Routine(Workspace(made, tw.files()), "pi-one-prompt", 380).steps(120)
    made.assistant("All modules use SQLite now, the JSON file is read once to fill it, and the tests pass.")
    return made


STORIES = (
    Story("pi-responses.jsonl", responses, "pi"),
    Story("pi-gemini.jsonl", gemini, "pi"),
    Story("pi-one-prompt.jsonl", one_prompt, "pi"),
)
