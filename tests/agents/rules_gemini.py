"""What Gemini's API would refuse in the contents of a request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from tests.agents.bodies import Body, gemini_contents

Part = dict[str, Any]

_BULK = {
    "text": str,
    "inlineData": dict,
    "fileData": dict,
    "functionCall": dict,
    "functionResponse": dict,
    "executableCode": dict,
    "codeExecutionResult": dict,
}
"""What a part holds one of, and of which type."""

_BESIDE = {"thought", "thoughtSignature", "videoMetadata", "mediaResolution"}
_CALL = {"id", "name", "args", "partialArgs", "willContinue"}
_RESPONSE = {"id", "name", "response", "parts", "willContinue", "scheduling"}


def problems(body: Body) -> Iterator[str]:
    """List what the contents break: their order, their pairs, the fields of their parts."""
    contents = gemini_contents(body)
    if contents and contents[0].get("role") != "user":
        yield "the first content is not the user's"
    for number, (before, after) in enumerate(pairwise(contents), 1):
        if before.get("role") == after.get("role"):
            yield f"message {number}: {after.get('role')} follows {before.get('role')}"
    for number, content in enumerate(contents):
        for part in content.get("parts") or ():
            yield from (f"message {number}: {said}" for said in _part(part))
    yield from _pairs(contents)


def _part(part: Part) -> Iterator[str]:
    held = part.keys() & _BULK.keys()
    if len(held) != 1:
        yield f"a part holds {sorted(held)}, not one of them"
    yield from _unknown("part", part, _BULK.keys() | _BESIDE)
    yield from (f"{key} is of another type" for key in sorted(held) if not isinstance(part[key], _BULK[key]))
    for key, known, inner in (("functionCall", _CALL, "args"), ("functionResponse", _RESPONSE, "response")):
        given = part.get(key)
        if isinstance(given, dict):
            yield from _unknown(key, given, known)
            if not given.get("name"):
                yield f"{key} has no name"
            if not isinstance(given.get(inner, {}), dict) or (key == "functionResponse" and inner not in given):
                yield f"{inner} of {given.get('name')} is no object"
            for each in given.get("parts") or ():
                yield from _part(each)


def _unknown(what: str, given: Part, known: set[str]) -> Iterator[str]:
    if extra := given.keys() - known:
        yield f"{what}: unknown name {sorted(extra)}"


def _pairs(contents: Sequence[Part]) -> Iterator[str]:
    """The next content answers the calls of this one, name by name, and id by id where they have some."""
    before: Part = {}
    for number, content in enumerate([*contents, {}]):
        calls, results = _held("functionCall", before), _held("functionResponse", content)
        named, answered = _names(calls), _names(results)
        if named != answered:
            yield f"message {number}: results of {answered} follow calls of {named}"
        elif all(call.get("id") for call in calls) and _ids(calls) != _ids(results):
            yield f"message {number}: results {_ids(results)} follow calls {_ids(calls)}"
        before = content


def _held(key: str, content: Part) -> list[Part]:
    return [part[key] for part in content.get("parts") or () if isinstance(part.get(key), dict)]


def _names(given: Sequence[Part]) -> list[str]:
    return sorted(str(each.get("name") or "") for each in given)


def _ids(given: Sequence[Part]) -> list[str]:
    return sorted(str(each.get("id") or "") for each in given)
