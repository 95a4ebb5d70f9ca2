"""Every way in which we know that a session was destroyed by a program that made it smaller, by name and by report.

A name ends with the issue, of the program that did it or of the agent that met it, where somebody reported it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sessioncompress.core import marker
from sessioncompress.operations.show import show
from sessioncompress.policy.model import Policy
from tests.faults.checks import Played, parts_of, strings, thoughts_of
from tests.faults.hostile import KINDS, Case, around, asks_no_more, bulk, cases, play, work_much
from tests.support import blocks, texts
from tests.support.build import GeminiSession, OmpSession, OpenClawSession, PiSession, ResponsesSession, dice, shown
from tests.support.runs import calls, disk, result_texts, split

_LONG = texts.python_source(dice("complaints"), 30)
_THOUGHT = "First the gauges, then the alerts. " * 200
_ARGUMENTS: dict[str, Any] = {"null": None, "a text": _LONG, "a list": [_LONG], "empty": {}}
Add = Callable[[PiSession], object]
Asks = Callable[[Played], None]


# Left alone: what a run must not touch


def _of_our_own(made: PiSession) -> None:
    """Add the entries that say how the session goes on."""
    made.entry("model_change", provider="p", modelId="m")
    made.entry("thinking_level_change", thinkingLevel="low")
    made.entry("label", targetId=made.ids[0], label="here" * 99)
    made.entry("session_info", name="The logs. " * 99)
    made.entry("custom_message", customType="notice", content="Mind the tide. " * 99, display=True)
    made.entry("branch_summary", fromId="root", summary="There was another way. " * 99)
    made.entry("custom", customType="state", data={"open": ["a" * 999] * 9, "note": _LONG})


def _entries_stay(*kinds: str) -> Asks:
    def asks(played: Played) -> None:
        pairs = [pair for kind in kinds for pair in played.lines_with(b'"type":"%s"' % kind.encode())]
        assert all(old == new for old, new in pairs)

    return asks


def _usage_stays(played: Played) -> None:
    for old, new in played.messages("assistant"):
        assert old["usage"]["cost"]
        assert list(new) == [key for key in old if key in new]
        assert all(new[key] == old[key] for key in ("usage", "stopReason", "api", "provider", "model", "timestamp"))


def _texts_stay(played: Played) -> None:
    for role in ("user", "assistant"):
        for old, new in played.messages(role):
            assert [part["text"] for part in new["content"] if part["type"] == "text"] == [
                part["text"] for part in old["content"] if part["type"] == "text"
            ]


def _said(made: PiSession) -> None:
    for number in range(4):
        made.user(f"{number}: {_LONG}")
        made.step("write", {"path": "a", "content": _LONG + str(number)}, "ok", text=f"{number}: I write it. {_LONG}")


def _compacted(made: PiSession) -> None:
    for number in range(3):
        kept = made.user(f"Part {number}.")
        bulk(made, f"part {number}")
        made.compaction("What was done: " + _LONG, kept, details={"readFiles": ["a.py" * 50] * 20})


def _arguments_are(value: Any) -> Add:
    def add(made: PiSession) -> None:
        made.assistant({"type": "toolCall", "id": "odd_1", "name": "write", "arguments": value})
        made.result("odd_1", "ok", "write")

    return add


def _first_two_lines_stay(played: Played) -> None:
    assert split(played.after)[:2] == split(played.before)[:2]


# Thinking: whole or gone


def _thinks(made: PiSession) -> None:
    for number in range(6):
        made.step("write", {"path": "a", "content": _LONG + str(number)}, "ok", thinking=_THOUGHT + str(number))


def _latest_is(*parts: Any) -> Add:
    """Let the last message that thinks think something odd."""

    def add(made: PiSession) -> None:
        _thinks(made)
        made.assistant(*parts, made.call("bash", {"command": "make"}, call_id="odd_2"))
        made.result("odd_2", "ok")

    return add


def _latest_thinking_stays(played: Played) -> None:
    thinking = [number for number, entry in enumerate(played.old) if thoughts_of(entry)]
    left = [number for number, entry in enumerate(played.new) if thoughts_of(entry)]
    assert left[-1] == thinking[-1]
    assert thoughts_of(played.new[left[-1]]) == thoughts_of(played.old[left[-1]])


def _thinking_goes_whole(played: Played) -> None:
    """A signature stays with all that it signs; what is taken out leaves nothing of itself."""
    gone = 0
    for old, new in zip(played.old, played.new, strict=True):
        assert thoughts_of(new) in ([], thoughts_of(old))
        gone += len(thoughts_of(old)) - len(thoughts_of(new))
    assert gone
    _latest_thinking_stays(played)


def _reasoning_goes_with_its_items(played: Played) -> None:
    """An item id that hangs on reasoning is cut where the reasoning is gone, in the call and in its result."""
    cut = set()
    for old, new in zip(played.old, played.new, strict=True):
        gone = len(thoughts_of(new)) < len(thoughts_of(old))
        for one, other in zip(calls([old]), calls([new]), strict=True):
            assert other["id"] == (one["id"].partition("|")[0] if gone else one["id"])
            cut |= {other["id"]} if gone else set()
        assert not gone or not any("msg_" in part.get("textSignature", "") for part in parts_of(new))
    assert cut
    assert {new["toolCallId"] for _, new in played.messages("toolResult")} >= cut
    _pairs_stay(played)


def _only_thinking(made: PiSession) -> None:
    made.assistant(made.think(_THOUGHT))
    _thinks(made)


# Calls and results


def _pairs_stay(played: Played) -> None:
    made = [(part["id"].partition("|")[0], part["name"]) for part in calls(played.old)]
    assert [(part["id"].partition("|")[0], part["name"]) for part in calls(played.new)] == made
    answered = [new["toolCallId"] for _, new in played.messages("toolResult")]
    assert sorted(answered) == sorted(part["id"] for part in calls(played.new))


def _arguments_are_objects(played: Played) -> None:
    old, new = calls(played.old), calls(played.new)
    assert old != new
    for one, other in zip(old, new, strict=True):
        assert list(other["arguments"]) == list(one["arguments"])
        assert [type(value) for value in other["arguments"].values()] == [
            type(value) for value in one["arguments"].values()
        ]


def _marks(played: Played) -> list[str]:
    """Return the texts that a run put there: there must be some."""
    before = {text for entry in played.old for text in strings(entry)}
    found = [text for entry in played.new for text in strings(entry) if text not in before and "[[" in text]
    assert found
    return found


def _nothing_is_truncated(played: Played) -> None:
    """No text ends in what models copy into files; in arguments the marker says that the tool received all of it."""
    for text in _marks(played):
        assert not any(word in text.lower() for word in ("truncated", "omitted", "…", "[...", "...]", "removed"))
    for part in calls(played.new):
        for text in strings(part["arguments"]):
            assert marker.PREFIX not in text or marker.ARGUMENT_END in text


def _the_original_is_named(played: Played) -> None:
    """The marker says how much it stands for, that it is kept, and the command that prints it."""
    for text in _marks(played):
        refs = marker.references(text)
        assert refs
        assert "kept on disk: sessioncompress show " in text
        assert "lines, " in text or " KB" in text or " bytes" in text
        assert all(show(ref, played.path) for ref in refs)


def _lines_are_counted_as_they_are(played: Played) -> None:
    old = {text for entry in played.old for text in strings(entry)}
    for text in _marks(played):
        for ref in marker.references(text):
            content = show(ref, played.path)[0].content.decode()
            assert content in old
            count = content.count("\n") + (not content.endswith("\n"))
            assert f"{count:,} lines" in text or count == 1


def _results_have_texts(played: Played) -> None:
    assert all(text.strip() for text in result_texts(played.new))


def _each_cut_is_marked(played: Played) -> None:
    """What is left out of a result says so where it was."""
    changed = [(old, new) for old, new in played.messages("toolResult") if old["content"] != new["content"]]
    assert changed
    assert all(any(map(marker.references, strings(new["content"]))) for _, new in changed)


def _read_and_changed(made: PiSession) -> None:
    """Read a file, change it, read it again: same path, another text; and two parts of one file."""
    for number in range(2):
        made.step("read", {"path": "a.py"}, f"version {number}\n{texts.python_source(dice(number), 12)}")
    for offset in (1, 200):
        made.step("read", {"path": "b.py", "offset": offset}, f"from {offset}\n{texts.python_source(dice(offset), 12)}")


def _each_read_leads_to_its_own_text(played: Played) -> None:
    for old, new in played.messages("toolResult"):
        text, left = old["content"][0]["text"], new["content"][0]["text"]
        if left != text:
            (ref,) = marker.references(left)
            assert show(ref, played.path)[0].content.decode() == text
    assert not any("older content of b.py" in text for text in result_texts(played.new))
    assert sum("older content of a.py" in text for text in result_texts(played.new)) == 1


def _between(made: PiSession) -> None:
    """Put a message of an extension between a call and its result."""
    made.assistant(made.call("write", {"path": "a", "content": _LONG}, call_id="odd_3"))
    made.entry("custom_message", customType="note", content="Between.", display=True)
    made.result("odd_3", "ok", "write")


def _order_stays(played: Played) -> None:
    assert [entry.get("id") for entry in played.new] == [entry.get("id") for entry in played.old]
    assert [entry.get("parentId") for entry in played.new] == [entry.get("parentId") for entry in played.old]


def _already_marked(made: PiSession) -> None:
    """Let tools print, and calls write, what looks like markers of ours."""
    quoted = marker.marker("398 of 404 lines, 18.6 KB", "7f3a91c2e05b") + "\n"
    made.step("bash", {"command": "cat session.jsonl"}, quoted * 40)
    made.step("write", {"path": "a", "content": quoted * 40}, quoted)
    made.step("read", {"path": "a"}, _LONG + quoted)


def _quotes_are_content(played: Played) -> None:
    assert played.stats.imitated_markers
    for old, new in zip(played.old, played.new, strict=True):
        if old != new:
            there = set(strings(old))
            now = "\n".join(set(strings(new)) - there)
            ours = [ref for ref in marker.references(now) if ref != "7f3a91c2e05b"]
            assert all(show(ref, played.path)[0].content.decode() in there for ref in ours)


# Bulk that no model reads


def _mirrored(details: Any, tool: str = "edit") -> Add:
    def add(made: PiSession) -> None:
        for number in range(3):
            made.step(tool, {"path": "a"}, f"ok {number}", details=details)

    return add


def _mirrors_go(played: Played) -> None:
    assert played.stats.mirrors_replaced >= 2
    assert len(played.after) < len(played.before) / 2


def _images(count: int, prompt: bool = False) -> Add:
    def add(made: PiSession) -> None:
        for number in range(count):
            picture = blocks.image(blocks.png(48, number % 3))
            if prompt:
                made.user("See.", [picture])
                made.assistant("Seen.")
            else:
                made.step("read", {"path": "a.png"}, [blocks.text("A picture."), picture])

    return add


def _images_are_one_text_each(played: Played) -> None:
    assert played.stats.images_replaced >= 6
    for old, new in [*played.messages("toolResult"), *played.messages("user")]:
        assert len(old["content"]) == len(new["content"])
        for one, other in zip(old["content"], new["content"], strict=True):
            assert other == one or other["type"] == "text"


def _goals(made: PiSession) -> None:
    """Add the same goal again and again, as an extension does."""
    for number in range(20):
        made.entry("custom", customType="goal", data={"goal": "Keep the harbour dry. " * 90})
        made.step("bash", {"command": "make"}, texts.log_lines(dice(number), 20))


def _starts_are_emptied(played: Played) -> None:
    data = [entry["data"] for entry in played.new if entry.get("customType") == "tool_execution_start"]
    assert all(isinstance(each["args"], dict) for each in data)
    assert {} in [each["args"] for each in data]


def _the_figures_are_possible(played: Played) -> None:
    stats = played.stats
    assert 0 < stats.ratio < 1
    assert stats.compressed_size == len(played.after)
    assert stats.store_size == disk(played.path) - len(played.after)
    assert 0 <= stats.tokens_after < stats.tokens_before
    assert 0 < stats.removed_bytes <= stats.removable_bytes <= stats.original_size == len(played.before)
    assert stats.removed_bytes <= len(played.before) - len(played.after)


def _case(name: str, add: Add, asks: Asks, kind: type[PiSession] = PiSession) -> Case:
    return Case(name, lambda: around(add, kind), asks)


def _everywhere(name: str, add: Add, asks: Asks, kinds: Sequence[type[PiSession]] = KINDS) -> list[Case]:
    """Return the case once for each kind of session."""
    return [_case(f"{name} ({kind.__name__.removesuffix('Session')})", add, asks, kind) for kind in kinds]


LEFT_ALONE = [
    *_everywhere(
        "the entries that say how to go on were gone, cozempic#102",
        _of_our_own,
        _entries_stay(
            *("model_change", "thinking_level_change", "label", "session_info", "custom_message", "branch_summary")
        ),
    ),
    *_everywhere("the usage was stripped", _said, _usage_stays),
    *_everywhere("answers and prompts were cut", _said, _texts_stay),
    *_everywhere("the header line was lost, pi#8939", work_much, _first_two_lines_stay),
    _case("an extension's state was replaced", _of_our_own, _entries_stay("custom", "custom_message")),
    _case("checkpoints were emptied", _compacted, _entries_stay("compaction")),
    _case("the same goal, many times over, was another one after, oh-my-pi#12504", _goals, _entries_stay("custom")),
]

REWRITTEN = [
    *_everywhere("a call was left without its result, claude-code#1894", work_much, _pairs_stay),
    *_everywhere("a parent was gone, claude-code#58554", work_much, _order_stays),
    *_everywhere("a signature was cut, or stood alone, openclaw#108443", _thinks, _thinking_goes_whole),
    *_everywhere(
        "a pruned call's text was written into new files, hermes-agent#83435", work_much, _nothing_is_truncated
    ),
    *_everywhere("a marker was taken for damage, headroom#3098", work_much, _the_original_is_named),
    *_everywhere("a text was cut and nothing said so, rtk#1313", _read_and_changed, _each_cut_is_marked),
    *_everywhere(
        "a result was empty, claude-code#58827",
        lambda made: made.step("bash", {"command": "x"}, "\n" * 3000),
        _results_have_texts,
    ),
    *_everywhere(
        "arguments were no object any more, pi#8386",
        work_much,
        _arguments_are_objects,
        [kind for kind in KINDS if not issubclass(kind, GeminiSession)],
    ),
    *_everywhere(
        "reasoning was parted from its items, codex#8119",
        _thinks,
        _reasoning_goes_with_its_items,
        [ResponsesSession, OmpSession],
    ),
    *_everywhere(
        "a call's arguments stood there twice, oh-my-pi#12504",
        work_much,
        _starts_are_emptied,
        [kind for kind in KINDS if kind.__name__.startswith("Omp")],
    ),
    *[
        _case(
            f"the latest thinking became another one, where it is {what}, pi#7874",
            _latest_is(*parts),
            _latest_thinking_stays,
        )
        for what, parts in {
            "signed": [blocks.thinking(_THOUGHT)],
            "unsigned": [blocks.unsigned(_THOUGHT)],
            "empty": [blocks.unsigned("")],
            "empty and signed": [blocks.thinking("")],
            "withheld": [blocks.redacted()],
            "two": [blocks.thinking(_THOUGHT), blocks.redacted()],
        }.items()
    ],
    _case("a message that only thinks was left with nothing, claude-code#63475", _only_thinking, _thinking_goes_whole),
    *[
        _case(f"arguments that were {name} became something else, pi#8386", _arguments_are(value), _pairs_stay)
        for name, value in _ARGUMENTS.items()
    ],
    _case(
        "rewriting reflowed a message and made it longer, hermes-agent#113470",
        lambda made: made.step("bash", {"command": "x" * 600, "a b": [1, 2.5]}),
        asks_no_more,
    ),
    _case("a marker counted what nobody counts in, headroom#2586", work_much, _lines_are_counted_as_they_are),
    _case("a marker was kept as the original, headroom#2703", _already_marked, _quotes_are_content),
    _case("a later read was sent to an older text", _read_and_changed, _each_read_leads_to_its_own_text),
    _case("a message between call and result broke the chain, pi-shazam#780", _between, _order_stays),
    _case(
        "outputs for the screen filled the session, oh-my-pi#11920",
        _mirrored({"jsonOutputs": [{"data": _LONG * 9}] * 6}),
        _mirrors_go,
    ),
    _case(
        "snapshots of both sides filled the session, oh-my-pi#3786",
        _mirrored({"oldText": _LONG * 20, "newText": _LONG * 21}),
        _mirrors_go,
    ),
    _case(
        "an output stood there once more, codex#41269",
        _mirrored({"status": "completed", "aggregated": _LONG * 20}, "exec"),
        _mirrors_go,
        OpenClawSession,
    ),
    _case(
        "what was read stood there once more, oh-my-pi#12504",
        _mirrored(shown(_LONG * 20, "a.py"), "read"),
        _mirrors_go,
        OmpSession,
    ),
    _case("pictures in results filled the session, pi#9613", _images(7), _images_are_one_text_each),
    _case(
        "the same pictures were sent again and again, codex#23257", _images(7, prompt=True), _images_are_one_text_each
    ),
    _case("a saving was over all there was, cozempic#105", work_much, _the_figures_are_possible),
]


@cases(LEFT_ALONE)
def test_what_must_stay(tmp_path: Path, case: Case, policy: Policy) -> None:
    """What other programs took, and the agent could not do without."""
    play(case, policy, tmp_path)


@cases(REWRITTEN)
def test_what_is_replaced_harms_nobody(tmp_path: Path, case: Case, policy: Policy) -> None:
    """What other programs replaced so that the session was dead, or its agent misled."""
    play(case, policy, tmp_path)
