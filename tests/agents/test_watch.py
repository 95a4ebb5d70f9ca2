"""What the watch concludes from what it sees, without any agent."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from sessioncompress.formats.table import format_named
from tests.agents import watch
from tests.agents.sessions import FIXTURES
from tests.agents.watch import Bytes

MODULE = '"""A doc."""\nKINDS = ("one", "two three")\nMARKS = b\'"four"\'\nNEXT: str = "No name."\n"""five"""\n'


def test_the_names_of_a_module_are_those_in_its_strings_and_not_in_its_documentation() -> None:
    assert sorted(watch.names_in(MODULE)) == ["four", "one", "three", "two"]


@pytest.mark.parametrize(("agent", "kind"), [("codex", "compacted"), ("claude-code", "compact_boundary")])
def test_a_format_names_the_kinds_that_it_knows(agent: str, kind: str) -> None:
    names = watch.names_of(format_named(agent))
    assert kind in names
    assert "never-heard-of" not in names


def found_in(agent: str, *entries: dict[str, Any]) -> dict[str, int]:
    form = format_named(agent)
    reader, names = form.reader(), watch.names_of(form)
    raw = [json.dumps(entry, separators=(",", ":")).encode() for entry in entries]
    pairs = zip(raw, entries, strict=True)
    return dict(each for line, entry in pairs for each in watch.unnamed(entry, reader.line(line, entry), names))


def test_a_record_of_a_kind_that_no_format_names_counts_whole() -> None:
    entry = {"type": "brand-new", "message": {"type": "newer"}}
    assert found_in("claude-code", entry) == {"brand-new": len(json.dumps(entry, separators=(",", ":")))}


def test_of_an_event_or_a_part_of_such_a_kind_only_that_counts() -> None:
    event = {"type": "event_msg", "payload": {"type": "brand_new", "text": "x"}}
    part = {"type": "response_item", "payload": {"type": "message", "role": "user", "content": [{"type": "odor"}]}}
    assert found_in("codex", event, part) == {"event_msg/brand_new": 31, "response_item/message/odor": 15}


def test_what_the_reader_takes_something_out_of_is_known() -> None:
    content = [{"type": "tool_result", "tool_use_id": "t", "content": "x" * 500}]
    shown = {"type": "brand-new", "stdout": "y" * 5000}
    entry = {"type": "user", "uuid": "u", "message": {"role": "user", "content": content}, "toolUseResult": shown}
    assert found_in("claude-code", entry) == {}
    assert found_in("claude-code", {**entry, "toolUseResult": {"type": "brand-new"}}) == {"user/brand-new": 20}


def test_text_of_an_attachment_makes_no_kind_known() -> None:
    entry = {"type": "attachment", "uuid": "u", "attachment": {"type": "brand_new", "text": "z" * 5000}}
    assert list(found_in("claude-code", entry)) == ["attachment/brand_new"]


@pytest.mark.parametrize(
    "name", ["codex.jsonl", "claude-code.jsonl", "gemini.jsonl", "opencode.json", "pi-anthropic.jsonl"]
)
def test_every_byte_of_a_session_is_of_some_kind(name: str) -> None:
    found = watch.bytes_of(FIXTURES / name)
    assert 0 < found.kinds.total() <= (FIXTURES / name).stat().st_size
    assert found.kinds.total() > 0.9 * (FIXTURES / name).stat().st_size


def test_a_kind_is_too_large_above_the_share_alone() -> None:
    found = Bytes(Counter(all=1000), Counter(new=20, newer=21))
    assert found.unknown(watch.MOST) == [("newer", 0.021)]


def test_the_table_says_what_is_left_of_each_kind() -> None:
    lines = watch.table(
        Bytes(Counter(big=900, small=100, tiny=1), Counter(small=90)), Bytes(Counter(big=90, small=100))
    )
    assert [line.split() for line in lines[1:]] == [
        ["900", "89.9%", "10.0%", "big"],
        ["100", "10.0%", "100.0%", "small"],
        ["1,001", "100.0%", "19.0%", "all"],
        ["no", "format", "names", "small:", "9.0%"],
    ]


def test_turns_may_be_added_and_none_may_go() -> None:
    assert watch.missing(["a", "b"], ["a", "new", "b"]) == []
    assert watch.missing(["a", "b", "c"], ["a", "c"]) == ["of 3 turns that the agent listed, it lists 'b' no more"]
    assert watch.missing(["a", "b"], ["b", "a"]) != []


def test_a_database_that_points_into_a_session_is_told_of(tmp_path: Path) -> None:
    session, index = tmp_path / "session.jsonl", tmp_path / "index.sqlite"
    session.write_bytes((b"x" * 999 + b"\n") * 3)
    (tmp_path / "other.json").write_text('{"size": 4000, "version": 2000.5}')
    with closing(sqlite3.connect(index)) as database:
        database.execute("CREATE TABLE turns (start INTEGER, name TEXT)")
        database.executemany("INSERT INTO turns VALUES (?, ?)", [(1000, "a"), (2000, "b"), (7, "c")])
        database.commit()
    before = watch.state_of(tmp_path)
    assert watch.beside(tmp_path, before, session) == [
        "beside: index.sqlite is as it was, 2 numbers in it are places in the session"
    ]


def test_older_versions_come_after_the_one_that_is_the_latest(monkeypatch: pytest.MonkeyPatch) -> None:
    said = {"dist-tags.latest": "1.10.0", "versions": '["1.2.0", "1.10.0", "1.9.0", "1.11.0", "1.9.1-beta"]'}
    monkeypatch.setattr(watch, "_npm", lambda *given: type("Done", (), {"stdout": said[given[2]]}))
    assert watch.versions("any") == ["1.10.0", "1.9.0", "1.2.0"]


@pytest.mark.parametrize(("good", "code"), [(True, 0), (False, 1)])
def test_it_exits_with_1_where_an_agent_does_not_go_well(
    good: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(watch, "bring", lambda agent: (f"{agent.name} 9", Path()))
    monkeypatch.setattr(watch, "watch", lambda agent, modules: (["seen"], good or agent.name == "pi"))
    assert watch.main(["claude", "pi"]) == code
    assert capsys.readouterr().out == "claude-code 9\n  seen\n\npi 9\n  seen\n\n"
