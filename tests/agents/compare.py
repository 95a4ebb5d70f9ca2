"""Compares what an agent sends after resuming a rewritten session with what it sends after resuming the original."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from tests.agents.bodies import Body, Kind, Message, Part, agent_messages, messages
from tests.agents.rules import problems, reasoned_ids

MARKER = "[[sessioncompress: "
_FORM = re.compile(r"\n?\[\[sessioncompress: [^\[\]\n]*\]\]")
UNSAID = frozenset({"system", "developer"})
"""Roles whose texts come from the agent, not from the session."""

_OWN_WORDS = ("<system-reminder>", "<system-notice>\nBackground job")
"""So begins what Claude Code and oh-my-pi say in the user's name: an attachment, the result of a job that was late."""

_LONGEST = 80


def differences(original: Body, rewritten: Body, thoughts: Collection[str] = ()) -> list[str]:
    """List what the rewritten session changed and should not have, and the API rules that only it breaks.

    `thoughts` are the texts of the session's thinking: pi sends those of another model as plain text.
    """
    broken = counted(problems(rewritten, reasoned_ids(original))) - counted(problems(original))
    found = message_differences(messages(original), messages(rewritten), thoughts)
    return [*found, *(f"breaks a rule of the API: {problem}" for problem in broken.elements())]


def counted(found: Iterable[str]) -> Counter[str]:
    """Count problems by what they say, without their places: those move when thinking goes."""
    return Counter(re.sub(r"^message \d+", "a message", problem) for problem in found)


def context_differences(original: Sequence[Mapping[str, Any]], rewritten: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the differences between the messages that an agent's loader rebuilt from two sessions."""
    found = message_differences(agent_messages(original), agent_messages(rewritten))
    if len(original) != len(rewritten):
        return found or [f"{len(original)} messages became {len(rewritten)}"]
    pairs = enumerate(zip(original, rewritten, strict=True))
    return [*found, *(f"message {n}: {said}" for n, (o, w) in pairs for said in _around(o, w))]


def _around(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """What surrounds the content stays, but for mirrors, and for the payload that oh-my-pi sends in its stead."""
    shrinkable = {"content", "details", "toolCallId", "providerPayload"}
    if old.keys() - shrinkable != new.keys() - shrinkable:
        yield f"has the fields {sorted(new)}, had {sorted(old)}"
    yield from (f"{key} changed" for key in sorted(old.keys() - shrinkable) if old[key] != new.get(key))
    payload = new.get("providerPayload")
    if payload is not None and payload != old.get("providerPayload"):
        yield "the provider's payload changed"
    if payload is None and "providerPayload" in old and any("|" in block.get("id", "") for block in new["content"]):
        yield "the provider's payload is gone, and item ids that belong to it are not"


def message_differences(
    original: Sequence[Message], rewritten: Sequence[Message], thoughts: Collection[str] = ()
) -> list[str]:
    """List the differences between messages; thinking may be missing, as a whole."""
    old, new = _said(original, thoughts), _said(rewritten, thoughts)
    if [m.role for m in old] != [m.role for m in new]:
        return [_roles(old, new)]
    pairs = enumerate(zip(old, new, strict=True))
    said = [said for n, (o, w) in pairs for said in _message(f"message {n} ({o.role})", o, w)]
    return [*said, *_thinking(original, rewritten)]


def _roles(old: Sequence[Message], new: Sequence[Message]) -> str:
    pairs = enumerate(zip_longest([m.role for m in old], [m.role for m in new]))
    place, (before, after) = next((n, pair) for n, pair in pairs if pair[0] != pair[1])
    return f"{len(old)} messages became {len(new)}: message {place} was {before}, is {after}"


def _said(found: Sequence[Message], thoughts: Collection[str]) -> list[Message]:
    """Leave out thinking, and the messages that held nothing else."""
    shown = [replace(m, parts=tuple(p for p in m.parts if not _is_thought(m, p, thoughts))) for m in found]
    return [new for new, old in zip(shown, found, strict=True) if new.parts or not old.parts]


def _is_thought(message: Message, part: Part, thoughts: Collection[str]) -> bool:
    return part.kind is Kind.THINKING or (
        part.kind is Kind.TEXT and message.role in {"assistant", "model"} and part.value in thoughts
    )


def _message(where: str, old: Message, new: Message) -> Iterator[str]:
    if len(old.parts) != len(new.parts):
        yield f"{where}: {_kinds(old.parts)} became {_kinds(new.parts)}"
        return
    for before, after in zip(old.parts, new.parts, strict=True):
        yield from _part(where, before, after, ours=old.role in UNSAID)


def _kinds(parts: Sequence[Part]) -> str:
    return f"[{', '.join(part.kind for part in parts)}]"


def _part(where: str, old: Part, new: Part, *, ours: bool) -> Iterator[str]:
    if old.kind is Kind.IMAGE and new.kind is Kind.TEXT and new.value.startswith(MARKER):
        return
    if old.kind is not new.kind:
        yield f"{where}: {old.kind} became {new.kind}"
    elif old.kind is Kind.CALL:
        yield from _call(where, old, new)
    elif old.kind is Kind.RESULT:
        yield from _result(where, old, new)
    elif not ours and not _same_text(old.value, new.value):
        yield f"{where}: {old.kind} changed from {_short(old.value)} to {_short(new.value)}"
    if old.phase != new.phase:
        yield f"{where}: the phase was {old.phase!r}, is {new.phase!r}"


def _same_text(old: Any, new: Any) -> bool:
    """Claude Code ends a text with a line's end where another follows, such as what stands in a picture's place."""
    if not isinstance(old, str) or not isinstance(new, str):
        return bool(old == new)
    return old.removesuffix("\n") == new.removesuffix("\n") or (old.startswith(_OWN_WORDS) and _stands_for(new, old))


def _call(where: str, old: Part, new: Part) -> Iterator[str]:
    if not _same_id(old.call, new.call) or old.name != new.name:
        yield f"{where}: call {old.name} {old.call} became {new.name} {new.call}"
    if new.signature not in {old.signature, ""}:
        yield f"{where}: the signature of call {old.call} changed"
    yield from _arguments(f"{where}: arguments of {old.name} {old.call}", old.value, new.value)


def _same_id(old: str, new: str) -> bool:
    """An id may have lost its item id, whose `|` pi writes as `_` to APIs that do not allow it."""
    return new == old or (bool(new) and old.startswith((f"{new}|", f"{new}_")))


def _arguments(where: str, old: Any, new: Any) -> Iterator[str]:
    """Arguments keep their shape; only a long string may have become one that says so."""
    if isinstance(old, dict) and isinstance(new, dict) and list(old) == list(new):
        for key, value in old.items():
            yield from _arguments(f"{where}.{key}", value, new[key])
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (before, after) in enumerate(zip(old, new, strict=True)):
            yield from _arguments(f"{where}[{number}]", before, after)
    elif type(old) is not type(new) or (old != new and not _stands_for(new, old)):
        yield f"{where} changed from {_short(old)} to {_short(new)}"


def _stands_for(new: Any, old: Any) -> bool:
    return isinstance(new, str) and MARKER in new and len(new) < len(old)


def _result(where: str, old: Part, new: Part) -> Iterator[str]:
    if not _same_id(old.call, new.call) or old.name != new.name:
        yield f"{where}: result {old.name} {old.call} became {new.name} {new.call}"
    if old.value == new.value:
        return
    before, after = _joined(old.value), _joined(new.value)
    # A marker may stand for a picture, and so be longer than all the text, and be a line of its own before it.
    kept = _FORM.sub("", after).strip("\n")
    if MARKER not in after:
        yield f"{where}: result {old.call} changed and does not say so: {_short(after)}"
    elif len(kept) > len(before):
        yield f"{where}: result {old.call} grew from {len(before)} to {len(kept)} characters and markers"
    if any(part.kind is not Kind.TEXT and part not in old.value for part in new.value):
        yield f"{where}: result {old.call} holds something that it did not hold"


def _joined(parts: Sequence[Part]) -> str:
    return "\n".join(part.value for part in parts if part.kind is Kind.TEXT)


def _thinking(original: Sequence[Message], rewritten: Sequence[Message]) -> Iterator[str]:
    """What thinking is left is the original's, byte for byte and in its order."""
    left = iter([p for m in original for p in m.parts if p.kind is Kind.THINKING])
    for part in (p for m in rewritten for p in m.parts if p.kind is Kind.THINKING):
        if part not in left:  # an iterator: what is found, or passed over, does not count again
            yield f"thinking was changed or moved: {_short(part.value)}, signature {_short(part.signature)}"
            return


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]} ({len(text)} characters)"
