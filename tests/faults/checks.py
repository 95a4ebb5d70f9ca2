"""What a run may have done to a session, and what not: a line, an entry, what lies beside, what comes back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import orjson

from sessioncompress.core import marker
from sessioncompress.core.model import Protection
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.show import show
from sessioncompress.operations.verify import verify_session
from sessioncompress.pipeline.stats import CompressionStats
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import store_in
from tests.support.runs import EAGER, MTIME, compress_again, disk, entries, snapshot, split, view_of

_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}:,]|[^\s"\[\]{}:,]+|\s+', re.DOTALL)
_MAY_CHANGE = frozenset({"content", "details", "providerPayload", "toolCallId"})
_THOUGHTS = ("thinking", "redactedThinking")


@dataclass(frozen=True)
class Played:
    """A session before and after its first run."""

    path: Path
    policy: Policy
    before: bytes
    after: bytes
    stats: CompressionStats

    @cached_property
    def old(self) -> list[Any]:
        """The entries before."""
        return entries(self.before)

    @cached_property
    def new(self) -> list[Any]:
        """The entries after."""
        return entries(self.after)

    def lines_with(self, sign: bytes) -> list[tuple[bytes, bytes]]:
        """Return the lines that held some bytes, before and after; there must be one."""
        found = [pair for pair in zip(split(self.before), split(self.after), strict=True) if sign in pair[0]]
        assert found
        return found

    def messages(self, role: str) -> list[tuple[Any, Any]]:
        """Return the messages of a role, before and after."""
        pairs = [(message_of(old), message_of(new)) for old, new in zip(self.old, self.new, strict=True)]
        return [pair for pair in pairs if pair[0].get("role") == role]


def check_rest(path: Path, policy: Policy, content: bytes) -> None:
    """One more run changes nothing, beside the session either, and what lies there is sound."""
    compress_again(path, policy)
    assert path.read_bytes() == content
    before = snapshot(path)
    verify_session(path, policy)
    assert snapshot(path) == before


def check_restored(path: Path, policy: Policy, original: bytes) -> None:
    """Every byte comes back, and the mode; what lies beside stays."""
    names = sorted(snapshot(path))
    restore_session(path, policy)
    assert path.read_bytes() == original
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(snapshot(path)) == names


def check_beside(path: Path, most: int) -> None:
    """Fewer bytes than before; one file of originals and one journal however many runs there were, and no more."""
    assert disk(path) < most
    store = store_in(path)
    files = (path, store.originals, store.journal)
    assert sorted(snapshot(path)) == sorted(each.relative_to(path.parent).as_posix() for each in files)


def check_protected(played: Played) -> None:
    """What is recent is the same to the byte: by the policy, and by eye from the last prompt on."""
    old, new = split(played.before), split(played.after)
    for one, other, where in zip(old, new, view_of(played.before, played.policy).standing, strict=True):
        assert one == other or where is not Protection.PROTECTED
    if played.policy is EAGER:
        last = max(number for number, line in enumerate(old) if b'"role":"user"' in line.replace(b" ", b""))
        assert new[last:] == old[last:]


def check_markers(played: Played) -> None:
    """Each marker names a way back that prints what stood there."""
    for old, new in zip(split(played.before), split(played.after), strict=True):
        if old != new:
            there = set(strings(json.loads(old)))
            for ref in set(marker.references(new.decode())) - set(marker.references(old.decode())):
                assert there & {each.content.decode() for each in show(ref, played.path, played.policy)}


def check_lines(played: Played) -> None:
    """Line by line: the same, or smaller and the same but for what may be replaced. Time and last bytes stay."""
    assert (played.path.stat().st_mode & 0o777, played.path.stat().st_mtime_ns) == (0o640, MTIME)
    assert played.after.endswith(b"\n") == played.before.endswith(b"\n")
    for old, new in zip(split(played.before), split(played.after), strict=True):
        if old != new:
            assert len(new) < len(old)
            check_bytes(old, new)
            check_entry(orjson.loads(old), orjson.loads(new))


def check_bytes(old: bytes, new: bytes) -> None:
    """All but the replaced values is spelled as it was: what is new in the line are texts of ours alone."""
    left = iter(_TOKEN.findall(old))
    for token in _TOKEN.findall(new):
        if marker.PREFIX_BYTES not in token and not _is_cut_id(token, old):
            assert b'"image"' in old or token in left, token


def _is_cut_id(token: bytes, old: bytes) -> bool:
    return (len(token) > len('"call_"') and token[:-1] + b"|" in old) or _is_nameless_signature(token, old)


def _is_nameless_signature(token: bytes, old: bytes) -> bool:
    """A text's signature loses its item id and keeps its phase."""
    before, bare, behind = token.partition(rb"\"id\":\"\"")
    return bool(bare) and re.search(re.escape(before) + rb'\\"id\\":\\"\w+\\"' + re.escape(behind), old) is not None


def check_entry(old: Any, new: Any) -> None:
    """Whatever is not named as replaced is there: ids, parents, usage, texts, calls' names, keys and types."""
    assert stays(new) == stays(old)
    thoughts, left = thoughts_of(old), thoughts_of(new)
    assert left in ([], thoughts)
    message = message_of(new)
    assert message.get("role") not in ("assistant", "toolResult") or message["content"]


def message_of(entry: Any) -> dict[str, Any]:
    """Return an entry's message, or an empty one."""
    message = entry.get("message") if isinstance(entry, dict) else None
    return message if isinstance(message, dict) else {}


def parts_of(entry: Any) -> list[Any]:
    """Return the parts of a message's content."""
    content = message_of(entry).get("content")
    return content if isinstance(content, list) else []


def thoughts_of(entry: Any) -> list[Any]:
    """Return the thinking of a message."""
    return [part for part in parts_of(entry) if isinstance(part, dict) and part.get("type") in _THOUGHTS]


def stays(entry: dict[str, Any]) -> Any:
    """Return what of an entry must be there after every run."""
    message = message_of(entry)
    outer = {key: value for key, value in entry.items() if key != "message"}
    if entry.get("customType") == "tool_execution_start":
        outer["data"] = {key: value if key != "args" else type(value) for key, value in entry["data"].items()}
    inner = {key: value for key, value in message.items() if key not in _MAY_CHANGE}
    content = message.get("content")
    is_result = message.get("role") == "toolResult"
    parts = [_part(part, is_result) for part in content] if isinstance(content, list) else content
    return list(entry), outer, inner, _cut(message.get("toolCallId")), [part for part in parts or () if part]


def _part(part: Any, is_result: bool) -> Any:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _THOUGHTS:
        return None
    if kind == "image" or (kind == "text" and (is_result or marker.is_one(str(part.get("text"))))):
        return "text or image"
    if kind == "toolCall":
        rest = {key: value for key, value in part.items() if key != "partialJson"}
        return {**rest, "id": _cut(part.get("id")), "arguments": outline(part.get("arguments"))}
    return {key: value for key, value in part.items() if key != "textSignature"} if kind == "text" else part


def _cut(name: Any) -> Any:
    return name.partition("|")[0] if isinstance(name, str) else name


def outline(value: Any, key: str = "") -> Any:
    """Return arguments with their keys and types; paths and short texts as they are."""
    if isinstance(value, dict):
        return {name: outline(child, name) for name, child in value.items()}
    if isinstance(value, list):
        return [outline(child, key) for child in value]
    long = isinstance(value, str) and key != "path" and (len(value) > 200 or marker.occurs_in(value))
    return str if long else value


def strings(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    for child in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from strings(child)
