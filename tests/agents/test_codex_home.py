"""In a home with all that Codex keeps there, its lists, forks and requests are after each command what they were."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from sessioncompress.errors import InUse
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.pack import pack_sessions
from sessioncompress.operations.packed import packed_in, unpack_sessions
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.discover import discover
from sessioncompress.policy.model import BALANCED
from tests.agents import codex
from tests.agents.compare import differences
from tests.agents.installed import need
from tests.agents.sessions import ARCHIVE, FIXTURES, NO_THRESHOLDS
from tests.agents.standin import Request


class Threads(NamedTuple):
    """A home with a thread, a fork of its end, a fork of its third turn, and a fork whose last prompt was edited."""

    there: codex.Placed
    fork: str
    early: str
    edited: str

    @property
    def names(self) -> tuple[str, ...]:
        return (self.there.name, self.fork, self.early, self.edited)

    def turn(self, name: str | None = None) -> Request:
        """Go on with a thread, and return the request."""
        (request,) = codex.go_on(dataclasses.replace(self.there, name=name) if name else self.there)
        return request

    def requests(self) -> dict[str, Request]:
        """Return what each thread would send, each resumed in a copy of the home."""
        found = {}
        for name in self.names:
            kept = shutil.copytree(self.there.home, self.there.home.with_name("kept"), symlinks=True)
            found[name] = self.turn(name)
            shutil.rmtree(self.there.home)
            kept.rename(self.there.home)
        return found

    def lists(self) -> dict[str, Any]:
        """Return all that Codex lists of each thread: its turns with their items, read, paged, and resumed."""
        found = {}
        with codex.app_server(self.there) as answer:
            for name in self.names:
                read = answer("thread/read", threadId=name, includeTurns=True)["thread"]["turns"]
                paged = answer("thread/turns/list", threadId=name, limit=100)["data"]
                resumed = answer("thread/resume", threadId=name)["thread"]["turns"]
                found[name] = [_items(read), _items(paged[::-1]), _items(resumed)]
                assert found[name][0] == found[name][2]
        return found


def _items(turns: list[Mapping[str, Any]]) -> list[Any]:
    return [[turn["id"], [(item["type"], item["id"]) for item in turn["items"]]] for turn in turns]


@pytest.fixture(name="threads", scope="module")
def _threads(tmp_path_factory: pytest.TempPathFactory) -> Threads:
    folder = tmp_path_factory.mktemp("codex")
    session = codex.ours(FIXTURES / "codex-paginated.jsonl", folder / "session.jsonl")
    need(codex.program(), "Codex CLI")
    there = codex.placed(session, folder)
    for _ in range(4):
        codex.go_on(there)
    with codex.app_server(there) as answer:
        turns = [each["id"] for each in answer("thread/turns/list", threadId=there.name, limit=100)["data"]][::-1]
        assert len(turns) == 12
        fork, edited = (answer("thread/fork", threadId=there.name)["thread"]["id"] for _ in range(2))
        early = answer("thread/fork", threadId=there.name, lastTurnId=turns[3])["thread"]["id"]
    made = Threads(there, fork, early, edited)
    for name in (fork, early, edited):
        made.turn(name)
    with codex.app_server(there) as answer:
        answer("thread/resume", threadId=edited)
        last = answer("thread/turns/list", threadId=edited, limit=1)["data"][0]["id"]
        answer("thread/revert", threadId=edited, beforeTurnId=last)
    made.turn(edited)
    return made


def _check(threads: Threads, lists: Mapping[str, Any], requests: Mapping[str, Request]) -> None:
    """Codex lists the same, forks at a turn and at the end, and sends the same or less for each thread."""
    assert threads.lists() == lists
    with codex.app_server(threads.there) as answer:
        turns = [turn for turn, _ in lists[threads.there.name][0]]
        for last in (turns[2], turns[-1]):
            forked = answer("thread/fork", threadId=threads.there.name, lastTurnId=last)["thread"]["turns"]
            assert [each["id"] for each in forked] == turns[: turns.index(last) + 1]
    for name, request in threads.requests().items():
        assert differences(requests[name].body, request.body) == [], name


def test_what_a_running_codex_has_loaded_is_refused(threads: Threads) -> None:
    """Also while nothing happens there: it would go on with the file that we replaced."""
    before = threads.there.rollout.read_bytes()
    with codex.app_server(threads.there) as ask:
        ask("thread/resume", threadId=threads.there.name)
        with pytest.raises(InUse, match="a running Codex has it loaded"):
            compress_session(threads.there.rollout, NO_THRESHOLDS)
    assert threads.there.rollout.read_bytes() == before


def test_all_is_whole_after_each_command(threads: Threads) -> None:
    """Resumable, as Codex itself sees it: compress, go on, restore, go on, archive, pack and unpack."""
    rollout = threads.there.rollout
    first, folder = rollout.read_bytes(), threads.there.home / "sessions"
    lists, requests = threads.lists(), threads.requests()

    assert compress_session(rollout, NO_THRESHOLDS).is_smaller
    _check(threads, lists, requests)
    for _ in range(3):
        threads.turn()
    lists = threads.lists()
    assert len(lists[threads.there.name][0]) == 15

    restore_session(rollout)
    assert rollout.read_bytes().startswith(first)
    requests = threads.requests()
    _check(threads, lists, requests)
    threads.turn()
    lists, requests = threads.lists(), threads.requests()

    assert compress_session(rollout, ARCHIVE).is_smaller
    _check(threads, lists, requests)

    assert {
        each.result.status for each in pack_sessions(discover([folder]), [folder], lambda _: BALANCED) if each.result
    } == {"packed"}
    assert not rollout.exists()
    list(unpack_sessions(packed_in([folder])))
    _check(threads, lists, requests)
    verify_session(rollout)
