"""Properties over sessions of every odd shape: restored they are what they were, and a second run writes nothing."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from sessioncompress.core.lines import callers
from sessioncompress.core.model import Role
from sessioncompress.core.splice import REMOVED, Added, CannotSplice, splice
from sessioncompress.errors import NotASession
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import Status
from sessioncompress.policy.model import Placeholder, Policy, Prune
from tests.support.runs import EAGER, GREEDY, disk, fixture, runs_again, snapshot, split, survey_of
from tests.support.strategies import TEXTS, sessions

pytestmark = pytest.mark.slow


TEXTS += [
    "\n".join([*TEXTS[3].split("\n")[:20], "a new line", *TEXTS[3].split("\n")[20:]]),
    "*** Begin Patch\n" + "".join(f"*** Update File: {name}.py\n" + "+a line\n" * 40 for name in "abc"),
]


PRUNES = st.builds(
    Prune,
    enabled=st.booleans(),
    prune_minimum=st.sampled_from([0, 0, 300]),
    prune_protect=st.sampled_from([0, 1, 800, 40_000]),
    protect_tools=st.sampled_from([(), ("read",)]),
    preserve_recent_messages=st.integers(0, 4),
    placeholder=st.sampled_from(Placeholder),
)
POLICIES = st.builds(
    Policy,
    prune=PRUNES,
    size_threshold_kb=st.just(0),
    min_saved_kb=st.just(0),
    turn_threshold_before_compress=st.integers(0, 3),
    protect_tokens=st.sampled_from([0, 1, 500, 20_000, None]),
    tool_call_max_bytes=st.sampled_from([0, 256, 300, 500, 3000]),
    tool_result_max_bytes=st.sampled_from([0, 256, 300, 1000, 3000]),
    strip_thinking=st.booleans(),
    eliminate_redundancy=st.booleans(),
    preview_share=st.sampled_from([0, 0.05, 0.08, 1]),
    preview_max_bytes=st.sampled_from([0, 320, 2_000]),
)


@contextmanager
def written(data: bytes) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "session.jsonl"
        path.write_bytes(data)
        yield path


def run(path: Path, policy: Policy) -> None:
    """Run, and check everything that a run promises."""
    before, on_disk = path.read_bytes(), disk(path)
    stats = compress_session(path, policy)
    now = path.read_bytes()
    assert len(now) == stats.compressed_size
    assert len(split(now)) == len(split(before))
    if stats.status is Status.COMPRESSED:
        assert disk(path) < on_disk
        saved = max(stats.tokens_before - stats.tokens_after, 0)
        assert not policy.prune.enabled or saved >= policy.prune.prune_minimum
        sound(before, now)
    else:
        assert now == before
    left = contents(path)
    again = runs_again(path, policy)
    assert again.status is Status.UNCHANGED
    assert contents(path) == left
    if policy.prune.enabled and stats.status is Status.COMPRESSED:
        other = next(each for each in Placeholder if each is not policy.prune.placeholder)
        for prune in (replace(policy.prune, placeholder=other), replace(policy.prune, enabled=False)):
            assert compress_session(path, replace(policy, prune=prune)).status is Status.UNCHANGED
            assert contents(path) == left
    verify_session(path, policy)


def contents(path: Path) -> dict[str, bytes]:
    return {name: found[0] for name, found in snapshot(path).items()}


def sound(before: bytes, now: bytes) -> None:
    """Check that lines keep what they are, and calls their results."""
    old, new = survey_of(before), survey_of(now)
    assert callers(old.lines) == callers(new.lines)
    assert old.shape == new.shape
    for one, other in zip(old.lines, new.lines, strict=True):
        assert (one.role, one.id, one.parent) == (other.role, other.id, other.parent)
        assert other.size <= one.size


@given(sessions(), POLICIES, POLICIES, st.integers(1, 20))
def test_any_session_comes_back(data: bytes, first: Policy, second: Policy, share: int) -> None:
    """Written in two parts with a run behind each, as under two policies; restored to the byte."""
    lines = split(data)
    cut = max(1, len(lines) * share // 20)
    with written(b"".join(lines[:cut])) as path:
        try:
            run(path, first)
        except NotASession:
            assume(False)
        with path.open("ab") as file:
            file.write(b"".join(lines[cut:]))
        run(path, second)
        restore_session(path)
        assert path.read_bytes() == data
        run(path, second)
        restore_session(path)
        assert path.read_bytes() == data


@given(sessions(), POLICIES)
def test_any_session_keeps_its_texts_by_its_markers(data: bytes, policy: Policy) -> None:
    """Whatever can be put back without the journal's lines is put back, and nothing else changes."""
    with written(data) as path:
        try:
            run(path, policy)
        except NotASession:
            assume(False)
        compressed = path.read_bytes()
        path.write_bytes(compressed + (b" \n" if compressed.endswith(b"\n") else b""))
        restore_session(path, policy, from_markers=True)
        for original, left, back in zip(split(data), split(compressed), split(path.read_bytes()), strict=False):
            assert left in (original, back) or len(back) > len(left)
            if left == original:
                assert back == original


NAMES = ["pi-anthropic.jsonl", "pi-responses.jsonl", "omp.jsonl", "pi-v1.jsonl", "hostile.jsonl", "pi-compacted.jsonl"]
LINES = [(name, split(fixture(name))) for name in NAMES]


@given(st.sampled_from(LINES), st.data())
def test_any_bytes_in_a_session_come_back(chosen: tuple[str, list[bytes]], data: st.DataObject) -> None:
    """Bytes of a real session's lines changed, lost, doubled, moved."""
    lines = list(chosen[1])
    for _ in range(data.draw(st.integers(1, 4))):
        number = data.draw(st.integers(1, len(lines) - 1))
        lines[number] = mutated(lines[number], lines, data)
    with written(b"".join(lines)) as path:
        try:
            run(path, EAGER)
        except NotASession:
            assume(False)
        restore_session(path)
        assert path.read_bytes() == b"".join(lines)


def mutated(line: bytes, lines: list[bytes], data: st.DataObject) -> bytes:
    at = data.draw(st.integers(0, max(0, len(line) - 1)))
    to = min(len(line), at + data.draw(st.integers(1, 40)))
    match data.draw(st.integers(0, 8)):
        case 0:
            return line[:at] + data.draw(st.binary(min_size=1, max_size=3)) + line[at + 1 :]
        case 1:
            return line[:at] + line[to:]
        case 2:
            return line[:at] + line[at:to] * 2 + line[to:]
        case 3:
            return line + line
        case 4:
            return data.draw(st.sampled_from(lines))
        case 5:
            return line.replace(b'"', b"", 1)
        case 6:
            return line.replace(b":", b" : ").replace(b",", b" , ")
        case 7:
            return line.replace(b'"message":', b'"message":{"role":"user","content":"x"},"message":', 1)
        case _:
            return line[:-1]


JSON = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(2**63), 2**64 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.text(max_size=6),
    ),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=4),
    max_leaves=20,
)


def all_paths(value: Any, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    children = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    found = []
    for step, child in children:
        found += [(*path, step), *all_paths(child, (*path, step))]
    return found


def apart(paths: list[tuple[str | int, ...]]) -> list[tuple[str | int, ...]]:
    """Return those paths of which none leads into another."""
    kept: list[tuple[str | int, ...]] = []
    for path in paths:
        if not any(path[: len(other)] == other or other[: len(path)] == path for other in kept):
            kept.append(path)
    return kept


SPELLINGS: st.SearchStrategy[Callable[[Any], bytes]] = st.sampled_from(
    [orjson.dumps, lambda value: json.dumps(value, indent=1).encode(), lambda value: json.dumps(value).encode()]
)


def additions(document: Any, taken: list[tuple[str | int, ...]], data: st.DataObject) -> list[tuple[str | int, ...]]:
    """Return paths of members that objects do not have, of objects that stay."""
    objects = [path for path in [(), *all_paths(document)] if isinstance(value_at(document, path), dict)]
    open_ones = [path for path in objects if not any(path[: len(other)] == other for other in taken)]
    chosen = data.draw(st.lists(st.tuples(st.sampled_from(open_ones), st.text(max_size=3)), max_size=3, unique=True))
    return [(*path, key) for path, key in chosen if key not in value_at(document, path)]


def value_at(document: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        document = document[step]
    return document


@given(st.dictionaries(st.text(max_size=3), JSON, max_size=5), st.data())
def test_a_member_is_added_and_all_other_bytes_stay(document: dict[str, Any], data: st.DataObject) -> None:
    """Whatever the spelling, it comes in one piece, with a comma before it where others are."""
    paths = additions(document, [], data)
    assume(len(paths) == 1)
    raw = data.draw(SPELLINGS)(document) + b"\n"
    assume(orjson.loads(raw) == document)
    made, parsed = splice(raw, orjson.loads(raw), {paths[0]: Added("new")})
    piece = orjson.dumps({paths[0][-1]: "new"})[1:-1]
    piece = b"," + piece if value_at(document, paths[0][:-1]) else piece
    assert any(raw[:place] + piece + raw[place:] == made for place in range(len(raw)))
    assert parsed == intended(document, {paths[0]: Added("new")})


@given(st.dictionaries(st.text(max_size=3), JSON, min_size=1, max_size=5), st.data())
def test_any_value_is_spliced(document: dict[str, Any], data: st.DataObject) -> None:
    """In any spelling: the parsed result is what was intended, and without the new values all bytes are the old ones."""
    paths = all_paths(document)
    chosen = apart(data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4, unique=True)))
    new = st.one_of(st.just(REMOVED), st.text(max_size=5), st.integers(0, 9), st.just({"a": [1]}))
    values: dict[tuple[str | int, ...], Any] = {path: data.draw(new) for path in chosen}
    for path in additions(document, chosen, data):
        values[path] = Added(data.draw(st.integers(0, 9) | st.text(max_size=3)))
    raw = data.draw(SPELLINGS)(document) + b"\r\n"
    assume(orjson.loads(raw) == document)
    made, parsed = splice(raw, orjson.loads(raw), values)
    assert parsed == orjson.loads(made) == intended(document, values)
    assert made.endswith(b"\r\n")


def intended(value: Any, values: Mapping[tuple[str | int, ...], Any], path: tuple[str | int, ...] = ()) -> Any:
    """Return the document with the values in place."""
    if path in values:
        return values[path]
    if isinstance(value, dict):
        made = {key: intended(child, values, (*path, key)) for key, child in value.items()}
        new = {name[-1]: each.value for name, each in values.items() if name[:-1] == path and isinstance(each, Added)}
        return {key: child for key, child in made.items() if child is not REMOVED} | new
    if isinstance(value, list):
        return [
            child
            for child in (intended(each, values, (*path, number)) for number, each in enumerate(value))
            if child is not REMOVED
        ]
    return value


@given(st.binary(max_size=80), st.data())
def test_any_bytes_that_parse_are_spliced_or_left(noise: bytes, data: st.DataObject) -> None:
    """Never anything else: no other error, no other value changed."""
    raw = b'{"a":[1,{"b":"text"}],"c":"text",' + noise.replace(b"\n", b"") + b'"d":"text"}'
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError:
        raw = b'{"a":[1,{"b":"text"}],"c":"text","d":"text"}'
        document = orjson.loads(raw)
    path = data.draw(st.sampled_from(all_paths(document)))
    try:
        _, parsed = splice(raw, orjson.loads(raw), {path: "new"})
    except CannotSplice:
        return
    assert parsed == intended(document, {path: "new"})


@given(sessions(), POLICIES)
def test_protected_lines_are_never_touched(data: bytes, policy: Policy) -> None:
    """With all turns protected nothing on the live path changes, nor what stands behind it."""
    safe = replace(policy, protect_tokens=None, turn_threshold_before_compress=99)
    with written(data) as path:
        try:
            compress_session(path, safe)
        except NotASession:
            assume(False)
        live = set(survey_of(data).shape.live)
        for number, (old, new) in enumerate(zip(split(data), split(path.read_bytes()), strict=True)):
            assert old == new or number not in live


def test_the_strategy_makes_sessions_that_are_rewritten() -> None:
    """A property over sessions that nothing happens to would prove nothing."""
    seen: dict[str, int] = {}

    @settings(max_examples=150, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(sessions())
    def count(data: bytes) -> None:
        with written(data) as path:
            stats = compress_session(path, GREEDY)
            seen[stats.status] = seen.get(stats.status, 0) + 1
            roles = {line.role for line in survey_of(data).lines}
            for role in Role:
                seen[role] = seen.get(role, 0) + (role in roles)
            for name in (
                "tool_calls_compressed",
                "tool_results_compressed",
                "thinking_blocks_removed",
                "mirrors_replaced",
                "images_replaced",
                "redundancies_eliminated",
            ):
                seen[name] = seen.get(name, 0) + bool(getattr(stats, name))

    count()
    assert seen[Status.COMPRESSED] > 20
    assert {name: number for name, number in seen.items() if not number} == {}
