"""The last check: every way in which a rewrite could break a session is noticed. Each case breaks one thing on purpose."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from sessioncompress.compressors import View
from sessioncompress.compressors.base import Ours
from sessioncompress.core.lines import Lines, Survey
from sessioncompress.core.model import Block, Call, Kind, Line, Protection, Purpose, Role, Shape
from sessioncompress.errors import Damaged
from sessioncompress.formats.table import format_named
from sessioncompress.pipeline.plan import check
from sessioncompress.policy.model import BALANCED
from tests.support.runs import line

BEFORE = (
    line(Role.HEADER, digest=1),
    line(Role.USER, digest=2, id="u", parent=""),
    line(Role.ASSISTANT, digest=3, id="a", parent="u", calls=(Call("c|i", "c", "bash", Purpose.COMMAND),)),
    line(Role.RESULT, digest=4, id="r", parent="a", answers="c|i", failed=True),
    line(Role.CHECKPOINT, digest=5, id="k", parent="r", keeps="a"),
    line(Role.ASSISTANT, digest=6, id="z", parent="k"),
)

Change = Callable[[list[Line]], Sequence[int] | None]


def changed(number: int, **facts: Any) -> Change:
    """Return what changes one line and says so."""

    def change(lines: list[Line]) -> Sequence[int]:
        rare = {name: facts.pop(name) for name in ("keeps", "failed") if name in facts}
        rest: dict[str, Any] = {"size": 50, "digest": 77, **facts, "facts": lines[number].facts._replace(**rare)}
        lines[number] = lines[number]._replace(**rest)
        return [number]

    return change


def secretly(number: int) -> Change:
    def change(lines: list[Line]) -> None:
        changed(number)(lines)

    return change


def together(*changes: Change) -> Change:
    return lambda lines: [number for change in changes for number in change(lines) or ()]


def dropped(lines: list[Line]) -> None:
    lines.pop()


CUT = Call("c", "c", "bash", Purpose.COMMAND)

GOOD: list[tuple[str, Change]] = [
    ("nothing changes", lambda lines: None),
    ("a line becomes smaller", changed(3)),
    ("call and result lose their item id together", together(changed(2, calls=(CUT,)), changed(3, answers="c"))),
]

BROKEN: list[tuple[str, Change, str, int | None]] = [
    ("a line is lost", dropped, "number of lines", None),
    ("a protected line changes", changed(5), "a protected line", 6),
    ("a line changes that is not named", secretly(1), "the plan does not name", 2),
    ("a protected line changes unnamed", secretly(5), "the plan does not name", 6),
    ("a line grows", changed(3, size=101), "grow", 4),
    ("a line stays as large", changed(3, size=100), "grow", 4),
    ("an id changes", changed(2, id="b"), "type, id or parent", 3),
    ("a parent changes", changed(3, parent="u"), "type, id or parent", 4),
    ("a type changes", changed(3, role=Role.OTHER), "type, id or parent", 4),
    ("a checkpoint keeps other entries", changed(4, keeps="u"), "type, id or parent", 5),
    ("a call is lost", changed(2, calls=()), "calls or its error flag", 3),
    ("an error flag is lost", changed(3, failed=False), "calls or its error flag", 4),
    ("only the call loses its item id", changed(2, calls=(CUT,)), "stay together", None),
    ("only the result loses its item id", changed(3, answers="c"), "stay together", None),
]


@pytest.mark.parametrize("change", [case[1] for case in GOOD], ids=[case[0] for case in GOOD])
def test_a_sound_rewrite_passes(change: Change) -> None:
    lines = list(BEFORE)
    named = change(lines) or ()
    check(_view(BEFORE), Lines(lines), named, "s.jsonl")


@pytest.mark.parametrize(("change", "said", "number"), [case[1:] for case in BROKEN], ids=[case[0] for case in BROKEN])
def test_a_broken_rewrite_is_refused(change: Change, said: str, number: int | None) -> None:
    """It says what would break, and that the session is not changed."""
    lines = list(BEFORE)
    named = change(lines) or ()
    with pytest.raises(Damaged, match=said) as caught:
        check(_view(BEFORE), Lines(lines), named, "s.jsonl")
    assert caught.value.line == number
    assert "not changed" in str(caught.value)


MIRROR = Block(Kind.MIRROR, ("message", "details"), 400, 400, "edit", "c")
UNSEEN = MIRROR._replace(path=("message", "before"), unseen=True)
TEXT = Block(Kind.RESULT, ("message", "content", 0, "text"), 300, 300, "edit", "c", b"d" * 16)
RECENT = line(
    Role.RESULT, digest=7, id="y", parent="z", answers="c|i", blocks=(TEXT, MIRROR, UNSEEN), reads=300, io=300
)

PROTECTED: list[tuple[str, Line, bool]] = [
    ("what nobody sees goes", RECENT._replace(size=50, digest=8, blocks=(TEXT, MIRROR)), True),
    ("what a screen shows goes", RECENT._replace(size=50, digest=8, blocks=(TEXT, UNSEEN)), False),
    ("its text goes too", RECENT._replace(size=50, digest=8, blocks=(MIRROR,)), False),
    ("its text changes", RECENT._replace(size=50, digest=8, blocks=(TEXT._replace(digest=b"e" * 16), MIRROR)), False),
    ("less of it is read", RECENT._replace(size=50, digest=8, blocks=(TEXT, MIRROR), reads=299), False),
    ("less of it is tool I/O", RECENT._replace(size=50, digest=8, blocks=(TEXT, MIRROR), io=299), False),
    ("it grows", RECENT._replace(size=101, digest=8, blocks=(TEXT, MIRROR)), False),
]


@pytest.mark.parametrize(("new", "sound"), [case[1:] for case in PROTECTED], ids=[case[0] for case in PROTECTED])
def test_what_may_become_of_a_protected_line(new: Line, sound: bool) -> None:
    """It may lose copies that nobody meets again, and no byte that a model reads or a screen shows."""
    before, after = _view((*BEFORE, RECENT)), Lines((*BEFORE, new))
    if sound:
        check(before, after, [len(BEFORE)], "s.jsonl")
        return
    with pytest.raises(Damaged, match=r"protected line|grow"):
        check(before, after, [len(BEFORE)], "s.jsonl")


def _view(lines: Sequence[Line]) -> View:
    """View lines of which all behind the fifth are protected."""
    view = View(Survey(Lines(lines), Shape((), frozenset()), 0), BALANCED, format_named("pi"), Ours())
    view.standing = (*[Protection.OLD] * 5, *[Protection.PROTECTED] * (len(lines) - 5))
    return view
