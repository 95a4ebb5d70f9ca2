"""The live path and the dead history, as the agent walks them; a line that we cannot read does not cut the path."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core.lines import Lines
from sessioncompress.core.model import Line, Role
from sessioncompress.formats.pi import Pi
from tests.support.build import OmpAnthropicSession, PiSession
from tests.support.runs import EAGER, compress, compress_again, line, survey_of, turn, write


def tree(story: str) -> list[Line]:
    """Return lines from words: `b<a` has id b and parent a; H a header, ? an opaque line, - a blank one.

    A checkpoint is written `c<b=a`: it keeps from a on; `c<b=` keeps nothing. `e<d*a` edits a.
    """
    return [_line(word) for word in story.split()]


def _line(word: str) -> Line:
    if word in ("H", "?", "-"):
        return line({"H": Role.HEADER, "?": Role.OPAQUE, "-": Role.BLANK}[word])
    rest, checkpoint, keeps = word.partition("=")
    rest, edit, edits = rest.partition("*")
    name, _, parent = rest.partition("<")
    if edit:
        return line(Role.OTHER, id=name, parent=parent, edits=edits)
    role = Role.CHECKPOINT if checkpoint else Role.ASSISTANT
    return line(role, id=name, parent=parent, **({"keeps": keeps} if checkpoint else {}))


TREES: list[tuple[str, str, list[int], set[int]]] = [
    ("nothing", "", [], set()),
    ("a header", "H", [0], set()),
    ("a chain", "H a b<a c<b", [1, 2, 3], set()),
    ("a branch that was left", "H a b<a c<b d<a", [1, 4], set()),
    ("the last line is the leaf", "H a b<a c<a b2<b", [1, 2, 4], set()),
    ("a root of its own empties the context", "H a b<a c", [3], set()),
    ("a parent that is missing", "H a b<x c<b", [2, 3], set()),
    ("a line that is no entry is no parent", "H a b<a ? c<x", [4], set()),
    ("an entry that is its own parent", "H a b<b", [2], set()),
    ("parents in a circle", "H a<c b<a c<b", [1, 2, 3], set()),
    ("an id twice: the last counts", "H a b<a a c<a", [3, 4], set()),
    ("blank lines between", "H a - b<a - c<b", [1, 3, 5], set()),
    ("parents that stand behind", "H b<a a c<b", [2, 1, 3], set()),
    ("a checkpoint that keeps from an entry on", "H a b<a c<b d<c e<d=c f<e", [1, 2, 3, 4, 5, 6], {1, 2}),
    ("of two checkpoints the last", "H a b<a c<b=b d<c e<d=d f<e", [1, 2, 3, 4, 5, 6], {1, 2, 3}),
    ("a checkpoint that keeps from the first on", "H a b<a c<b=a", [1, 2, 3], set()),
    ("a checkpoint that keeps nothing", "H a b<a c<b=", [1, 2, 3], {1, 2}),
    ("a checkpoint that keeps what is not there", "H a b<a c<b=x", [1, 2, 3], {1, 2}),
    ("a checkpoint on another branch", "H a b<a c<b=b d<b", [1, 2, 4], set()),
    ("an edit of an entry", "H a b<a c<b d<c*b", [1, 2, 3, 4], {2}),
    ("of two edits the last", "H a b<a c<b*a d<c*a e<d*b", [1, 2, 3, 4, 5], {1, 2, 3}),
    ("an edit of an entry off the path", "H a b<a x<a c<b*x", [1, 2, 4], set()),
    ("an edit off the path", "H a b<a x<b*a c<b", [1, 2, 4], set()),
    ("an edit of what is not there", "H a b<a*x", [1, 2], {2}),
    ("an edit of a checkpoint", "H a b<a=a c<b*b", [1, 2, 3], set()),
    ("edits behind a checkpoint of what is dead", "H a b<a c<b=b d<c*a e<d*a f<e*b", [1, 2, 3, 4, 5, 6], {1, 2, 4, 5}),
    ("an edit before a checkpoint", "H a b<a*a c<b d<c=c", [1, 2, 3, 4], {1, 2}),
    ("lines off the path are not dead", "H a b<a x<a c<b=c d<c=d", [1, 2, 4, 5], {1, 2, 4}),
]


@pytest.mark.parametrize(("story", "live", "dead"), [case[1:] for case in TREES], ids=[case[0] for case in TREES])
def test_shape(story: str, live: list[int], dead: set[int]) -> None:
    """Which lines the model is sent, and which of them lie before what the last checkpoint kept."""
    found = Pi().shape(Lines(tree(story)))
    assert list(found.live) == live
    assert found.dead == dead


def version_1(*roles: Role, keeps: int | None = None) -> list[Line]:
    """Return lines without ids; the checkpoint keeps from the entry of that index on."""
    return [line(role, **({"keeps": keeps} if role is Role.CHECKPOINT else {})) for role in roles]


H, U, A, K, Q, B = Role.HEADER, Role.USER, Role.ASSISTANT, Role.CHECKPOINT, Role.OPAQUE, Role.BLANK


@pytest.mark.parametrize(
    ("roles", "keeps", "dead"),
    [
        ([H, U, A, U, A, K, U], 3, {0, 1, 2}),
        ([H, U, A, B, U, A, K, U], 3, {0, 1, 2}),
        ([H, U, A, U, K, U], 0, set()),
        ([H, U, A, U, K, U], 99, set()),
        ([H, U, A, U, K, U], -1, set()),
        ([H, U, A, U, A, U], None, set()),
    ],
    ids=["an index", "blank lines are no entries", "all", "beyond the end", "before the start", "no checkpoint"],
)
def test_version_1_follows_its_lines(roles: list[Role], keeps: int | None, dead: set[int]) -> None:
    """Entries without ids follow each other; a checkpoint names an index among them, the header being 0."""
    found = Pi().shape(Lines(version_1(*roles, keeps=keeps)))
    assert list(found.live) == [number for number, role in enumerate(roles) if role is not B]
    assert found.dead == dead


@pytest.mark.parametrize(
    ("listed", "live"), [(True, [0, 1, 2, 3, 4]), (False, [3])], ids=["version 1", "a later version"]
)
def test_an_entry_with_an_id_makes_no_tree(listed: bool, live: list[int]) -> None:
    """The header's version does: the agent numbers the entries of version 1 anew."""
    header = line(H, **({"listed": True} if listed else {}))
    lines = [header, line(U), line(A), line(Role.OTHER, id="abc"), line(U)]
    assert list(Pi().shape(Lines(lines)).live) == live


@pytest.mark.parametrize(
    ("version", "listed"),
    [({}, True), ({"version": None}, True), ({"version": 1}, True), ({"version": 2}, False), ({"version": 3}, False)],
    ids=str,
)
def test_the_version_is_the_headers(version: dict[str, object], listed: bool) -> None:
    """None is version 1."""
    assert survey_of(PiSession(1, header=version)).lines[0].facts.listed is listed


OUTPUT = "a line of output\n" * 200
TWISTS: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("a lone surrogate", lambda raw: raw.replace(b"@@", b"\\ud83d")),
    ("no UTF-8", lambda raw: raw.replace(b"@@", b"\xff")),
    ("a number beyond floats", lambda raw: raw.replace(b'"isError":', b'"n":1e999,"isError":')),
    ("too deep", lambda raw: raw.replace(b'"isError":', b'"n":' + b"[" * 1100 + b"]" * 1100 + b',"isError":')),
    ("with spaces", lambda raw: raw.replace(b"@@", b"\\udead").replace(b'":"', b'" : "').replace(b',"', b' , "')),
]


@pytest.mark.parametrize("twist", [case[1] for case in TWISTS], ids=[case[0] for case in TWISTS])
def test_a_line_that_only_its_agent_can_read_does_not_cut_the_path(twist: Callable[[bytes], bytes]) -> None:
    """JavaScript reads lone surrogates and more; the turns before such a line are as live as those behind it."""
    made = PiSession()
    made.user("One.")
    made.step("bash", {"command": "x"}, "@@" + OUTPUT)
    raw = made.take_last()
    made.raw(twist(raw))
    turn(made)
    found = survey_of(made)
    assert len(found.lines.opaque()) == 1
    assert {1, 2, 4, 5} <= set(found.shape.live)


def test_recent_turns_before_such_a_line_stay(tmp_path: Path) -> None:
    """They are protected, as they would be without it."""
    made = PiSession()
    for number in range(4):
        made.user(f"Part {number}.")
        made.step("bash", {"command": "x"}, OUTPUT + str(number) + "@@" * (number == 3))
        if number == 3:
            made.raw(made.take_last().replace(b"@@", b"\\ud83d"))
        made.assistant("Done.")
    path = write(tmp_path, made)
    compress_again(path, replace(EAGER, turn_threshold_before_compress=4))


def test_prompts_that_only_their_agent_can_read_are_turns(tmp_path: Path) -> None:
    """Were they not counted, the session would have no more turns than stay whole."""
    made = PiSession()
    for number in range(6):
        made.user(f"Part {number}. @@")
        made.raw(made.take_last().replace(b"@@", b"\\ud83d"))
        made.step("bash", {"command": "x"}, OUTPUT + str(number))
        made.assistant("Done.")
    path = write(tmp_path, made)
    assert compress(path, replace(EAGER, turn_threshold_before_compress=4, protect_tokens=None)).lines_changed == 2


def test_a_checkpoint_that_only_its_agent_can_read_is_one() -> None:
    """With what it keeps, also where all of it is nested too deep to be parsed."""
    for odd in (b'"\\ud83d"', b"[" * 1100 + b"]" * 1100):
        made = PiSession()
        made.user("One.")
        kept = made.user("Two.")
        made.compaction("All is well.", kept, details="@@")
        made.raw(made.take_last().replace(b'"@@"', odd))
        assert survey_of(turn(made)).shape.dead == {1}


def test_such_a_line_counts_as_an_entry_of_version_1() -> None:
    made = PiSession(1)
    made.user("One.")
    made.step("bash", {"command": "x"}, "@@")
    made.raw(made.take_last().replace(b"@@", b"\\ud83d"))
    kept = made.count
    made.user("Two.")
    made.assistant("Done.")
    made.compaction("All is well.", kept)
    turn(made)
    assert survey_of(made).shape.dead - {3} == set(range(kept)) - {3}


def test_a_boundary_that_oh_my_pi_sets_is_a_checkpoint() -> None:
    made = OmpAnthropicSession().opening()
    made.user("One.")
    made.assistant("Done.")
    made.reset()
    first = made.count
    turn(made)
    found = survey_of(made).shape
    assert max(found.dead) == first - 2
    assert first not in found.dead
