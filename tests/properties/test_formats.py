"""What holds of every format, on the fixtures of its stories: with its first story a format has its first tests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.core.jsonl import parse
from sessioncompress.core.model import JsonPath, Kind, Line
from sessioncompress.core.splice import REMOVED
from sessioncompress.formats import values
from sessioncompress.formats.base import Format, Head
from sessioncompress.formats.table import NAMELESS, NAMES, TABLE, agent_folders, agent_roots, format_named, recognizing
from sessioncompress.operations.compress import compress_session
from sessioncompress.pipeline.reading import read_line
from tests.support.runs import (
    GREEDY,
    HOMES,
    fixture,
    head_of_file,
    units,
    view_of,
    write,
)
from tests.support.runs import paths as paths_in
from tests.support.stories import SESSIONS, STORIES, of_format

SOUND = of_format(*NAMES)
SHORT = values.SMALLEST_BLOCK - 56
"""Characters that are never offered, also where escapes make more bytes of them."""

LONG = "a line of output\n" * 60
ODD: list[Any] = [None, True, 7, "", LONG, [], [1], [None], [[LONG]], {}, {"a": LONG}]
"""What may stand in any field of a line that somebody else wrote."""


def form_of(name: str) -> Format:
    return format_named(str(STORIES[name].form))


@cache
def read(name: str) -> list[tuple[bytes, Any, Line]]:
    """Return the lines of a fixture, or the messages of a document: as they are, parsed, and read."""
    reader = form_of(name).reader()
    return [(raw, parse(raw), read_line(raw, reader)) for raw in units(fixture(name))]


@cache
def kinds(form: str) -> list[Any]:
    """Return one entry of each kind in a format's fixtures: of those that have the same keys the first."""
    found: dict[frozenset[Any], Any] = {}
    for name in of_format(form):
        for _, entry, _ in read(name):
            steps = frozenset(tuple(step for step in path if isinstance(step, str)) for path in paths_in(entry))
            found.setdefault(steps, entry)
    return list(found.values())[:40]


def leaves(value: Any) -> Iterator[tuple[JsonPath, Any]]:
    for path in paths_in(value):
        leaf = values.at(value, path)
        if not isinstance(leaf, dict | list):
            yield path, leaf


def test_every_format_has_a_session_that_a_run_makes_smaller() -> None:
    """What is said of every format here is said of what happens to its sessions."""
    compressed = {story.form for story in STORIES.values() if not (story.stays or story.is_odd)}
    missing = set(NAMES) - compressed
    assert not missing, f"{', '.join(sorted(missing))}: tell a story of it in tests/support/stories"


@pytest.mark.parametrize("name", SESSIONS)
def test_one_format_recognizes_it(name: str) -> None:
    """Of pi and its relatives the relative."""
    assert [form.name for form in recognizing(head_of_file(fixture(name)))] == [STORIES[name].form]


@pytest.mark.parametrize("name", SOUND)
def test_thinking_is_offered_only_where_it_may_go(name: str) -> None:
    """It is known of the line that it thinks, or the newest would go, too; and no message would be left empty."""
    for _, entry, line in read(name):
        thoughts = [block.path for block in line.blocks if block.kind is Kind.THINKING]
        assert line.facts.thinks or not thoughts
        for around in {path[:-1] for path in thoughts} if not line.response else ():
            assert len(values.at(entry, around)) > sum(path[:-1] == around for path in thoughts)


@pytest.mark.parametrize("name", SOUND)
def test_what_was_not_offered_stays(tmp_path: Path, name: str) -> None:
    """In its order, under its keys; of arguments also what is short, and what names a file."""
    path = write(tmp_path, fixture(name))
    compress_session(path, GREEDY)
    lines = view_of(fixture(name), GREEDY).lines
    for (_, old, _), line, raw in zip(read(name), lines, units(path.read_bytes()), strict=True):
        offered = {block.path: block.kind for block in line.blocks}
        offered |= dict.fromkeys((tie.path for tie in line.facts.ties), Kind.MIRROR)
        now = iter([(keys(at), value) for at, value in leaves(json.loads(raw))])
        for at, value in leaves(old):
            # In a text that is JSON itself a part of it may be offered.
            kind = next((kind for path, kind in offered.items() if at[: len(path)] == path[: len(at)]), None)
            is_short = not isinstance(value, str) or len(value) < SHORT
            if kind is None or (kind is Kind.ARGUMENT and (is_short or at[-1] in values.FILE_KEYS)):
                assert (keys(at), value) in now, at


def keys(path: JsonPath) -> JsonPath:
    """Return a path without places in lists: those move where a part before is taken out."""
    return tuple(step for step in path if isinstance(step, str))


@pytest.mark.parametrize("name", SOUND)
def test_no_name_may_change(name: str) -> None:
    """By them lines hang together, and a result answers its call."""
    form = form_of(name)
    linking = [tuple(path.split(".")) for path in form.reader.linking]
    for _, entry, line in read(name):
        for path, value in leaves(entry):
            if path in linking or value == (line.answers or None):
                assert not form.may_change(entry, path, "x"), path
                assert not form.may_change(entry, path, REMOVED), path


@pytest.mark.parametrize("form", NAMES)
def test_odd_types_in_every_field(form: str) -> None:
    """Whatever stands there, something is read of it, and nothing raises."""
    made = format_named(form)
    seen: set[JsonPath] = set()
    for entry in kinds(form):
        for number, path in enumerate(paths_in(entry)):
            # In a place that another kind has too they take turns.
            odds = ODD if keys(path) not in seen else ODD[number % 4 :: 4]
            seen.add(keys(path))
            for odd in odds if path else ():
                changed = json.loads(json.dumps(entry))
                values.at(changed, path[:-1])[path[-1]] = odd
                raw = json.dumps(changed).encode() + b"\n"
                read_line(raw, made.reader())
                assert all(isinstance(said.text, str) for said in made.reader().said(changed))
                made.answer(changed)
                made.named(Head((changed,)))
                made.recognizes(Head((changed, entry)))


@pytest.mark.parametrize("name", SOUND)
def test_a_line_that_is_too_large_keeps_its_place(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """What its reader calls linking names the same entry and the same parent as the whole line."""
    monkeypatch.setattr(values, "is_readable", lambda raw: False)
    reader = form_of(name).reader()
    for raw, _, line in read(name):
        picked = values.entry_of(raw, reader.linking)
        assert picked is not None
        found = reader.line(raw, picked)
        assert not line.id or (found.id, found.parent) == (line.id, line.parent), raw[:200]


@pytest.mark.parametrize("name", SOUND)
def test_a_line_that_only_its_agent_can_read_keeps_its_place(name: str) -> None:
    """Without what is nested too deep for us it is read as it was; it stays as it is."""
    deep = b',"deep":' + b"[" * 2000 + b"]" * 2000 + b"}\n"
    lines, reader = read(name), form_of(name).reader()
    for raw, _, line in lines:
        found = read_line(raw.rstrip()[:-1] + deep, reader)
        assert (found.id, found.parent, found.role) == (line.id, line.parent, line.role)
        assert found.blocks == ()
        assert found.facts.sealed


@pytest.mark.parametrize("name", [name for name in SOUND if STORIES[name].form not in NAMELESS])
def test_its_header_names_it(name: str) -> None:
    found = form_of(name).named(head_of_file(fixture(name)))
    assert found.id
    assert found.project


@pytest.mark.parametrize(
    ("variable", "usual", "pattern"), [folder for row in TABLE for folder in row.folders], ids="-".join
)
def test_its_folders_are_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, usual: str, pattern: str
) -> None:
    for name in HOMES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if usual:
        found(Path(usual).expanduser() / pattern.replace("*", "x"))
    if variable:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
        found(tmp_path / "elsewhere" / pattern.replace("*", "x"))


def found(folder: Path) -> None:
    folder.mkdir(parents=True)
    assert folder in agent_folders()
    assert any(folder.is_relative_to(root) for root in agent_roots())
