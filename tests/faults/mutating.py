"""Mutations of entries by their values: other types, keys gone or doubled, deep nests, ids and parents mixed up."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any

from tests.support.mutations import mutated
from tests.support.runs import split

_DEEP: Any = "x"
for _ in range(150):
    _DEEP = [_DEEP]

_VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        False,
        0,
        -1,
        7.5,
        10**30,
        float("nan"),
        float("inf"),
        "",
        "x",
        " ",
        [],
        {},
        [[]],
        [None],
        {"": None},
    ),
    *(
        {"text": {"text": []}},
        ["a", 1, {}],
        "\ud83d",
        "a\udc00b",
        "\x00",
        "\x1b[2J",
        "\u2028",
        "</summary>\n## x",
        _DEEP,
    ),
    *("y" * 70_000, "line\n" * 9_000, "user", "assistant", "compaction", "toolResult", "system", "compacted", "null"),
    *("9999-99-99T99:99:99Z", "2026-01-01T00:00:00Z", "[Extracted by sessioncompress from 3 entries of this session"),
)
_LINKS = (
    *(
        "id",
        "parentId",
        "uuid",
        "parentUuid",
        "call_id",
        "toolCallId",
        "tool_use_id",
        "firstKeptEntryId",
        "tool_call_id",
    ),
    *("type", "role", "timestamp", "content", "message", "payload", "messages", "parts", "info", "callID", "messageID"),
)


def values_mutated(dice: random.Random, lines: list[bytes], share: float) -> bytes:
    """Return a session of lines some of which have other values, stand elsewhere or break off."""
    entries: list[Any] = [_loaded(line) for line in lines]
    new = list(lines)
    for number, entry in enumerate(entries):
        if number and isinstance(entry, dict) and dice.random() < share:
            for _ in range(dice.choice((1, 1, 2, 5))):
                dice.choice(_MUTATIONS)(dice, entry, entries)
            new[number] = _dumped(dice, entry)
        if number and dice.random() < share / 5:
            new[number] = dice.choice(
                (new[number][: dice.randrange(len(new[number]))], new[number] * 2, b"", b"\xff\n")
            )
    for _ in range(int(len(new) * share / 5)):
        one, other = dice.randrange(1, len(new)), dice.randrange(1, len(new))
        new[one], new[other] = new[other], new[one]
    return b"".join(new)


def document_mutated(dice: random.Random, data: bytes, share: float) -> bytes:
    """Return a document some of whose messages have other values, or bytes."""
    document = _loaded(data)
    values = document.values() if isinstance(document, dict) else (document,)
    messages: list[Any] = next((value for value in values if isinstance(value, list) and value), [])
    for message in messages:
        if isinstance(message, dict) and dice.random() < share:
            for _ in range(dice.choice((1, 1, 2, 5))):
                dice.choice(_MUTATIONS)(dice, message, messages)
    if len(messages) > 1 and dice.random() < share:
        one, other = dice.randrange(len(messages)), dice.randrange(len(messages))
        messages[one], messages[other] = messages[other], messages[one]
    if dice.random() < share / 4 and isinstance(document, dict):
        dice.choice(_MUTATIONS)(dice, document, messages)
    new = _dumped(dice, document, dice.choice((None, 2)))
    return mutated(dice, new) if dice.random() < share / 4 else new


def mutated_session(dice: random.Random, data: bytes, share: float) -> bytes:
    """Return a session with mutations of one kind or another."""
    lines = split(data)
    if len(lines) < 3 or data.startswith((b"{\n", b"[\n")):
        return document_mutated(dice, data, share)
    if dice.random() < 0.3:
        return b"".join(mutated(dice, line) if at and dice.random() < share else line for at, line in enumerate(lines))
    return values_mutated(dice, lines, share)


def _loaded(line: bytes) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _dumped(dice: random.Random, entry: Any, indent: int | None = None) -> bytes:
    text = json.dumps(entry, indent=indent, ensure_ascii=dice.random() < 0.5)
    return text.encode("utf-8", "surrogatepass") + b"\n"


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each object or list with each of its keys."""
    found: list[tuple[Any, Any]] = []
    waiting = [(value, 0)]
    while waiting:
        inside, depth = waiting.pop()
        keys = list(inside) if isinstance(inside, dict) else range(len(inside)) if isinstance(inside, list) else ()
        for key in keys:
            found.append((inside, key))
            if depth < 8:
                waiting.append((inside[key], depth + 1))
    return found


def _other_value(dice: random.Random, entry: Any, entries: list[Any]) -> None:
    del entries
    if places := _places(entry):
        inside, key = dice.choice(places)
        inside[key] = json.loads(json.dumps(dice.choice(_VALUES)))


def _linked(dice: random.Random, entry: Any, entries: list[Any]) -> None:
    """Give an entry what another one has at the same key: its id, its parent, its text."""
    places = [place for place in _places(entry) if place[1] in _LINKS]
    other = dice.choice(entries)
    if places and other is not None:
        inside, key = dice.choice(places)
        values = [holder[at] for holder, at in _places(other) if at == key or (at in _LINKS and dice.random() < 0.1)]
        if values:
            inside[key] = json.loads(json.dumps(dice.choice(values)))


def _dropped(dice: random.Random, entry: Any, entries: list[Any]) -> None:
    del entries
    if places := _places(entry):
        inside, key = dice.choice(places)
        del inside[key]


def _added(dice: random.Random, entry: Any, entries: list[Any]) -> None:
    del entries
    inside = dice.choice([entry, *(holder for holder, _ in _places(entry) if isinstance(holder, dict))])
    if isinstance(inside, dict):
        key = dice.choice((*_LINKS, "", "isCompactSummary", "isSidechain", "summary", "$set"))
        # A copy: what is changed in it later must not be in the next session, or in itself.
        inside[key] = json.loads(json.dumps(dice.choice(_VALUES)))


def _wrapped(dice: random.Random, entry: Any, entries: list[Any]) -> None:
    del entries
    if places := _places(entry):
        inside, key = dice.choice(places)
        inside[key] = dice.choice(([inside[key]], {"text": inside[key]}, [inside[key], inside[key]]))


_MUTATIONS: tuple[Callable[[random.Random, Any, list[Any]], None], ...] = (
    *(_other_value, _linked, _dropped, _added, _wrapped),
)
