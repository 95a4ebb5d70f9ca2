"""gencode 0.4: one document, whose messages hold calls in the parts of the model and results in those of the user."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import takewhile
from typing import Any

from xxhash import xxh3_64_hexdigest

from sessioncompress.core import model
from sessioncompress.core.checkpoint import Addition, Checkpoint, Cut, Said, Say, Summary, Written
from sessioncompress.core.model import Answer, Block, Facts, JsonPath, Kind, Line, Role
from sessioncompress.core.splice import Added
from sessioncompress.core.text import estimate, utf8
from sessioncompress.formats import base, values
from sessioncompress.formats.base import Cleared, Entry, Head, Name, line_of

_TOOLS = "askuserquestion edit glob grep webfetch websearch todowrite task taskoutput skill enterplanmode exitplanmode"

_MOST_USES, _LONGEST_USE = 3, 120
"""Files or commands of a tool in the agent's record of a summary, and their characters."""
SUMMARY = "[Earlier conversation - "
"""How the agent's message of the system begins that holds a summary; the rest of that line counts messages."""


class GenCodeReader(base.Reader):
    """Reads the messages of one session."""

    reads_as = "numbered"

    def __init__(self) -> None:
        super().__init__()
        self._began = False
        """Whether something was said: a summary stands before that."""

    def line(self, raw: bytes, entry: Entry) -> Line:
        parts = values.parts(entry.get("content"))
        reads = values.characters(entry.get("content"))
        blocks: list[Block] = []
        io = 0
        if entry.get("role") == "assistant":
            self._began = True
            calls = []
            for index, part in parts:
                if part.get("type") == "tool_use":
                    calls.append(self.call(part.get("id"), part.get("name"), part.get("input")))
                    # A signature covers the call.
                    kept: list[Block] = [] if "thoughtSignature" in part else blocks
                    io += values.arguments(("content", index, "input"), part.get("input"), calls[-1], kept)
            reads += io + values.CALL * len(calls)
            return line_of(raw, Role.ASSISTANT, blocks, calls=calls, io=io, reads=reads)
        results = [(index, part) for index, part in parts if part.get("type") == "tool_result"]
        if not results:
            summary = not self._began and entry.get("role") == "system"
            self._began |= entry.get("role") != "system"
            if summary and values.words(entry.get("content")).startswith(SUMMARY):
                # What it sums up is no longer there.
                return line_of(raw, Role.CHECKPOINT, reads=reads, facts=Facts(keeps=0))
            return line_of(raw, Role.USER if entry.get("role") == "user" else Role.OTHER, reads=reads)
        names = tuple(values.text(part.get("toolUseId")) for _, part in results)
        for (index, part), name in zip(results, names, strict=True):
            made = self.answered(name)
            text = values.text(part.get("content"))
            io += len(text)
            if not made.reads_skill:
                blocks += values.long_text(Kind.RESULT, ("content", index, "content"), text, made.tool, name)
        one = len(names) == 1
        failed = any(part.get("isError") is True for _, part in results)
        facts = Facts(failed=failed, several=() if one else names)
        reads += io + values.RESULT * len(names)
        return line_of(raw, Role.RESULT, blocks, answers=names[0] if one else "", io=io, reads=reads, facts=facts)

    def said(self, entry: Entry) -> Iterator[Said]:
        role, content = entry.get("role"), entry.get("content")
        if role == "system":
            head, _, summary = values.words(content).partition("\n")
            if head.startswith(SUMMARY) and summary.strip():
                yield Said(Say.SUMMARY, summary.strip())
            return
        say = {"user": Say.PROMPT, "assistant": Say.ANSWER}.get(values.text(role))
        for part in [{"type": "text", "text": content}] if isinstance(content, str) else values.items(content):
            match values.type_of(part):
                case "text" if say and (text := values.part_text(part)):
                    yield Said(say, text)
                case "tool_use":
                    yield self.said_call(part.get("id"), part.get("name"), part.get("input"))
                case "tool_result":
                    name, flag = values.text(part.get("toolUseId")), part.get("isError")
                    failed = flag if isinstance(flag, bool) else None
                    yield Said(Say.RESULT, values.text(part.get("content")), call=name, failed=failed)


def is_document(document: Any) -> bool:
    """Tell whether what stands around a document's messages is the agent's."""
    metadata = values.fields(values.fields(document).get("metadata"))
    keys = ("id", "createdAt", "updatedAt", "provider", "model", "cwd")
    return all(isinstance(metadata.get(key), str) for key in keys)


class GenCode(base.Format):
    """Sessions of gencode 0.4: a compaction takes the messages that it sums up out of the document."""

    name = "gencode"
    reader = GenCodeReader
    tools = frozenset({*GenCodeReader.purposes, *_TOOLS.split()})
    kept_tools = frozenset({"askuserquestion"})
    titles = (("metadata", "title"),)

    def recognizes(self, head: Head) -> bool:
        return is_document(head.document) and all(
            entry.get("role") in ("system", "user", "assistant") and "content" in entry for entry in head.entries
        )

    def named(self, head: Head) -> Name:
        metadata = values.fields(values.fields(head.document).get("metadata"))
        return base.name_of(*map(metadata.get, ("id", "cwd", "parentId")))

    def may_change(self, entry: Entry, path: JsonPath, value: Any) -> bool:
        """Allow changes of results and of arguments.

        The agent marks what it left out itself (`pruned`, `prunedAt`), and reads neither mark: the text is all.
        """
        match path:
            case ("content", int(index), "content"):
                return isinstance(value, str) and entry["content"][index].get("type") == "tool_result"
            case ("content", int(index), ("pruned" | "prunedAt") as key):
                part = entry["content"][index]
                return isinstance(value, Added) and part.get("type") == "tool_result" and key not in part
            case ("content", int(index), "input", *_, step):
                part = entry["content"][index]
                return isinstance(value, str) and step not in values.PLACE_KEYS and "thoughtSignature" not in part
        return False

    def cleared(self, entry: Entry, block: Block, text: str, now: int) -> Cleared | None:
        part = block.path[:-1]
        if not entry["content"][part[-1]].keys().isdisjoint({"pruned", "prunedAt"}):
            return None
        flags = {(*part, "pruned"): True, (*part, "prunedAt"): base.time_of(now)}
        return Cleared("[Old tool result content cleared]", flags)

    def checkpoint(self, session: Written, cut: Cut, summary: Summary) -> Checkpoint:
        """Put a message of the system in the place of those that it sums up, and a record of it beside the messages."""
        (stays, gone), text = parted(session, cut), utf8(summary.text)
        message = {"role": "system", "content": f"{SUMMARY}{len(gone)} messages summarized]\n\n{text}"}
        outer = dict(_around(session, cut, gone, summary._replace(text=text)))
        return Checkpoint((Addition(min(cut.kept), values.literal(message)),), gone, outer, stays=stays)

    def noted(self, document: Any) -> Mapping[int, Answer]:
        """Read the answers that the document notes in its head, each with the message that it ends with."""
        metadata = values.fields(values.fields(document).get("metadata"))
        # Only this provider's caches are counted beside the input.
        read = model.beside if metadata.get("provider") == "anthropic" else model.within
        found: dict[int, Answer] = {}
        for note in map(values.fields, values.items(metadata.get("completions"))):
            number, counted = note.get("afterMessageIndex"), values.fields(note.get("usage"))
            cache = values.fields(counted.get("cache"))
            sent, made, thought = map(counted.get, ("inputTokens", "outputTokens", "reasoningTokens"))
            if isinstance(number, int) and number >= 0:
                usage = read(sent, made, cache.get("readTokens"), cache.get("writeTokens"), thought)
                found[number] = Answer(model=values.text(metadata.get("model")), usage=usage)
        if not found and (name := values.text(metadata.get("model"))):
            # No message has this number.
            found[-1] = Answer(model=name)
        return found


def parted(session: Written, cut: Cut) -> tuple[frozenset[int], frozenset[int]]:
    """Part what is old: messages of the system that stand first stay, the summary stands for all others.

    Of several summaries it stands for the last one.
    """
    roles, old, before = session.lines.roles, frozenset(cut.old), range(min(cut.kept))
    first = takewhile(
        lambda number: roles[number] is Role.OTHER and session.entry(number).get("role") in ("system", "developer"),
        before,
    )
    stays = frozenset(first)
    gone = (number for number in before if number in old or roles[number] is not Role.CHECKPOINT)
    return stays, frozenset(gone) - stays


def _around(session: Written, cut: Cut, gone: frozenset[int], summary: Summary) -> Iterator[tuple[JsonPath, Any]]:
    """Find what changes around the messages: the summaries, the counts, and the numbers of messages."""
    outer = values.fields(session.outer)
    metadata = values.fields(outer.get("metadata"))
    count = len(session.lines)
    if isinstance(metadata.get("messageCount"), int):
        yield ("metadata", "messageCount"), count - len(gone) + 1
    if "fullMessageCount" not in outer:
        yield ("fullMessageCount",), Added(count)
    for place, note in enumerate(map(values.fields, values.items(metadata.get("completions")))):
        number = note.get("afterMessageIndex")
        if isinstance(number, int) and number >= min(gone):
            # -1 stands for a message that left.
            moved = -1 if number in gone else number - len(gone) + 1
            yield ("metadata", "completions", place, "afterMessageIndex"), moved
    record = _record(session, cut, gone, summary, values.text(metadata.get("updatedAt")))
    if isinstance(outer.get("summaries"), list):
        yield ("summaries",), [*outer["summaries"], record]
    elif "summaries" not in outer:
        yield ("summaries",), Added([record])


def _record(session: Written, cut: Cut, gone: frozenset[int], summary: Summary, at: str) -> Mapping[str, Any]:
    reader, uses = GenCodeReader(), dict[str, list[str]]()
    for each in (said for number in sorted(gone) for said in reader.said(dict(session.entry(number)))):
        if each.say is Say.CALL:
            about = (values.text(each.given.get(key)) for key in (*values.FILE_KEYS, "command", "pattern"))
            uses.setdefault(each.tool, []).append(utf8(next(filter(None, about), "").partition("\n")[0][:_LONGEST_USE]))
    # So many characters end the id of a summary of gencode's.
    digits = xxh3_64_hexdigest(f"{min(cut.kept)}\n{summary.text}".encode())[:7]
    return {
        "id": f"sum-{base.moment(at)}-{digits}",
        "type": "compaction",
        "coveringMessages": [min(gone), max(gone)],
        "content": summary.text,
        "keyDecisions": list(map(utf8, summary.decisions)),
        "filesModified": list(map(utf8, summary.changed)),
        "toolsUsed": [
            {"tool": tool, "count": len(of), "notableUses": list(dict.fromkeys(filter(None, of)))[:_MOST_USES]}
            for tool, of in uses.items()
        ],
        "generatedAt": at,
        "estimatedTokens": estimate(len(summary.text)),
    }
