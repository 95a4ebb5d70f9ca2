"""Several rewritten lines of the same original: each of them is looked after, as if it stood there once."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from sessioncompress.core import marker
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.operations.verify import verify_session
from sessioncompress.policy.model import Policy
from sessioncompress.store.layout import store_in
from tests.support.runs import EAGER, GREEDY, compress, fixture, reading_again, split, units

PREFIX = marker.PREFIX_BYTES
OUT = "a line of output, as a tool prints it\n" * 300


def chat(*heads: str) -> bytes:
    """Return a chat of a server that numbers the calls of each answer anew; each head begins the result of one."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Go."}]
    for number, head in enumerate(heads):
        function = {"name": "bash", "arguments": json.dumps({"command": f"make {head}"})}
        call = {"id": "call_0", "type": "function", "function": function}
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": "call_0", "content": f"{head}\n{OUT}"})
        messages.append({"role": "user", "content": f"Again, {number}."})
    return b"".join(json.dumps(each).encode() + b"\n" for each in messages)


def compressed(path: Path, data: bytes, policy: Policy = EAGER) -> bytes:
    path.write_bytes(data)
    compress(path, policy)
    return path.read_bytes()


def doubles(data: bytes, mark: bytes = PREFIX) -> list[bytes]:
    """Return the rewritten lines or messages that stand there more than once."""
    return [
        raw
        for raw, times in Counter(each.removesuffix(b"\n") for each in units(data)).items()
        if times > 1 and mark in raw
    ]


def in_the_last(data: bytes, line: bytes, damage: Callable[[bytes], bytes]) -> bytes:
    at = data.rindex(line)
    return data[:at] + damage(line) + data[at + len(line) :]


def flipped(line: bytes) -> bytes:
    """Change one byte of a number in the marker."""
    at = line.index(PREFIX) + len(PREFIX)
    return line[:at] + (b"7" if line[at : at + 1] != b"7" else b"8") + line[at + 1 :]


def broken(line: bytes) -> bytes:
    return line.replace(PREFIX, PREFIX.upper(), 1)


def invalid(line: bytes) -> bytes:
    return line.replace(b'": "', b'": ""', 1) if b'": "' in line else line.replace(b'":"', b'":""', 1)


def edited(line: bytes) -> bytes:
    return line.replace(b"{", b"{ ", 1)


def reserialised(line: bytes) -> bytes:
    return json.dumps({**json.loads(line), "name": "bash"}, indent=None).encode()


def torn(line: bytes) -> bytes:
    """Keep as much of it as a disk that was full took."""
    return line[: line.index(PREFIX) + 30]


DAMAGE = [flipped, broken, invalid, edited, reserialised, torn]


def assert_told(path: Path, was: bytes, data: bytes) -> None:
    """Check that all lines that stand as a run left them come back, that others stay, and that it is said."""
    at = path.parent / "copy" / path.name
    shutil.copytree(path.parent, at.parent)
    then = dict(zip(units(path.read_bytes()), units(was), strict=True))
    at.write_bytes(data)
    expected = [then.get(each, each) for each in units(data)]
    assert verify_session(at).was_changed
    assert "changed since" in restore_session(at).reason
    assert units(at.read_bytes()) == expected
    shutil.rmtree(at.parent)


@pytest.mark.parametrize("damage", DAMAGE)
def test_one_of_them_is_damaged_in_a_chat_whose_ids_repeat(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """Every other result goes by the same name."""
    path, was = tmp_path / "session.jsonl", chat(*"aaaabbbbccdd")
    now = compressed(path, was)
    assert len(doubles(now)) > 1
    for line in doubles(now):
        assert_told(path, was, in_the_last(now, line, damage))


@pytest.mark.parametrize("damage", [each for each in DAMAGE if each not in {invalid, torn}])
def test_one_of_them_is_damaged_in_a_line_that_sets_all_messages(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """As Gemini CLI writes it at each resume."""
    path = tmp_path / "session.jsonl"
    was = fixture("gemini.jsonl")
    now = compressed(path, was, GREEDY)
    assert doubles(now)
    for line in doubles(now):
        assert_told(path, was, in_the_last(now, line, damage))


@pytest.mark.parametrize("damage", [flipped, broken, edited])
def test_an_equal_line_that_was_not_rewritten_stands_in_for_none(
    tmp_path: Path, damage: Callable[[bytes], bytes]
) -> None:
    """The last ones are too recent."""
    path, was = tmp_path / "session.jsonl", chat(*"aaaaaa")
    now = compressed(path, was, replace(EAGER, turn_threshold_before_compress=4))
    assert set(split(now)) & {line for line in split(was) if len(line) > len(OUT)}
    for line in doubles(now):
        assert_told(path, was, in_the_last(now, line, damage))


def test_one_more_of_them_in_each_run(tmp_path: Path) -> None:
    """Its rewritten form has records of earlier runs."""
    path, heads = tmp_path / "session.jsonl", "aaaaaa"
    now, was = compressed(path, chat(*heads[:2])), chat(*heads[:2])
    for turn in range(2, len(heads)):
        grown = chat(*heads[: turn + 1])
        now, was = compressed(path, now + grown[len(was) :]), grown
        for line in doubles(now):
            assert_told(path, was, in_the_last(now, line, broken))
        assert verify_session(path).lines_not_there == 0
    assert doubles(now)
    restore_session(path)
    assert path.read_bytes() == was


def without_the_last(data: bytes, line: bytes) -> bytes:
    return in_the_last(data, line + b"\n", lambda _: b"")


def test_one_of_them_is_gone(tmp_path: Path) -> None:
    """Nobody counts equal lines: the others come back, also beside others that go by the same name."""
    path, was = tmp_path / "session.jsonl", chat(*"aaaabbbbccdd")
    now = compressed(path, was)
    then = dict(zip(split(now), split(was), strict=True))
    for line in doubles(now):
        path.write_bytes(without_the_last(now, line))
        assert verify_session(path).lines_not_there == 0
        assert "changed since the last run" in restore_session(path).reason
        assert path.read_bytes() == b"".join(map(then.__getitem__, split(without_the_last(now, line))))
        assert restore_session(path).reason == "no line in it is rewritten"


@pytest.mark.parametrize("turns", range(1, 12))
def test_an_older_state_is_restored(tmp_path: Path, turns: int) -> None:
    """It ends anywhere, and its last lines, which a later run rewrote, stand there as they were."""
    path, heads = tmp_path / "session.jsonl", "aabababbaaba"
    older = chat(*heads[:turns])
    path.write_bytes(older)
    if turns > 2:
        compress(path, EAGER)
    state = path.read_bytes()
    compressed(path, state + chat(*heads)[len(older) :])
    path.write_bytes(state)
    if Counter(split(older)) != Counter(split(state)):
        verify_session(path)
    restore_session(path)
    assert path.read_bytes() == older


def test_an_agent_writes_its_file_anew_with_more_or_fewer_of_them(tmp_path: Path) -> None:
    """In any order; all that is there comes back."""
    path, was = tmp_path / "session.jsonl", chat(*"aaaabbbbccdd")
    now = compressed(path, was)
    then = dict(zip(split(now), split(was), strict=True))
    lines = list(dict.fromkeys(split(now)))
    for written in (lines, lines[::-1], [*split(now), *split(now)], split(now)[:9] + lines[-3:]):
        path.write_bytes(b"".join(written))
        verify_session(path)
        restore_session(path)
        assert path.read_bytes() == b"".join(map(then.__getitem__, written))


def test_put_back_and_rewritten_once_more(tmp_path: Path) -> None:
    """All of them have their records, some those of the run that was taken back; and none its original once more."""
    path, was = tmp_path / "session.jsonl", chat(*"aaaabbbbccdd")
    now = compressed(path, was)
    store = store_in(path)
    originals, records = store.originals.read_bytes(), store.journal.read_bytes().count(b'{"type":"edit"')
    for times in (2, 3):
        restore_session(path)
        assert path.read_bytes() == was
        assert verify_session(path).lines_not_there == 0
        assert compressed(path, was) == now
        assert verify_session(path).lines_not_there == 0
        assert store.originals.read_bytes() == originals
        assert records < store.journal.read_bytes().count(b'{"type":"edit"') <= times * records


def test_a_result_that_stands_in_two_lines_is_named_at_its_place_in_each(tmp_path: Path) -> None:
    """Gemini CLI writes a result with its call and in a line of its own: the same preview then stands in both."""
    lines, path = split(fixture("gemini.jsonl")), tmp_path / "gemini.jsonl"
    path.write_bytes(b"".join(lines[:70]))
    plain = replace(GREEDY, eliminate_redundancy=False)
    compress(path, replace(plain, turn_threshold_before_compress=2, protect_tokens=2000, strip_thinking=False))
    with path.open("ab") as file:
        file.writelines(lines[70:75])
    compress(path, replace(plain, tool_call_max_bytes=500, protect_tokens=0, preview_share=0))
    verify_session(path)


@pytest.mark.parametrize("name", ["claude-code.jsonl", "codex.jsonl", "pi-anthropic.jsonl"])
def test_replacements_that_an_agent_copied_are_what_it_wrote(tmp_path: Path, name: str) -> None:
    """A copy under another id has no original of its own: a later run shrinks it nowhere, and records nothing."""
    path = tmp_path / name
    rewritten = compressed(path, fixture(name))
    keys = {"uuid", "id", "timestamp"}
    copies = [
        json.dumps({key: f"{value}9" if key in keys else value for key, value in entry.items()}).encode() + b"\n"
        for entry in map(json.loads, split(rewritten)[1:])
        if marker.PREFIX in json.dumps(entry)
    ]
    path.write_bytes(rewritten + b"".join(copies))
    with reading_again():
        compress_session(path, replace(GREEDY, preview_max_bytes=0))
    assert verify_session(path).lines_rewritten
    restore_session(path)
    assert path.read_bytes() == fixture(name) + b"".join(copies)


# Lines that nothing names

DONE = b'{"role": "assistant", "content": "Done."}'
MORE = b'{"role": "user", "content": "more"}'


def thought(number: int) -> bytes:
    """Return an answer that a run makes equal to DONE."""
    return DONE[:-1] + b', "reasoning_content": "%d %s"}' % (number, b"so I think, and think again " * 100)


def talk(*answers: bytes, form: str = "jsonl") -> bytes:
    """Return a chat without ids or times."""
    messages = [line for each in answers for line in (MORE, each)]
    end = b"\n" if form == "jsonl" else b""
    return b"".join(line + end for line in messages) if end else b'{"messages": [%s]}' % b", ".join(messages)


def ends(*answers: bytes) -> tuple[bytes, ...]:
    """Return answers before which nothing is recent, because the last one has thinking, too."""
    return *answers, thought(0).replace(b"Done.", b"No.")


class Growing:
    """A chat and what its agent wrote of it, whatever runs did in between."""

    def __init__(self, folder: Path, form: str) -> None:
        self.path, self.form, self.said = folder / f"session.{form}", form, list[bytes]()

    def says(self, *answers: bytes) -> None:
        """Append prompts and answers, as the agent does after reading what is there."""
        there = self.path.read_bytes() if self.said else talk(form=self.form)
        more = b"".join(MORE + b"\n" + each + b"\n" for each in answers)
        if self.form == "json":
            more = b", ".join(line for each in answers for line in (MORE, each))
            more = there.removesuffix(b"]}") + (b", " if self.said else b"") + more + b"]}"
        self.path.write_bytes(there + more if self.form == "jsonl" else more)
        self.said += answers

    @property
    def was(self) -> bytes:
        return talk(*self.said, form=self.form)

    def is_restored(self) -> None:
        for _ in range(2):
            assert restore_session(self.path).exact
            assert self.path.read_bytes() == self.was
            assert verify_session(self.path).lines_rewritten == 0


def begun(folder: Path, form: str, *answers: bytes) -> Growing:
    made = Growing(folder, form)
    made.says(*ends(*answers))
    compress(made.path, EAGER)
    assert made.path.read_bytes().count(DONE) == len(answers)
    return made


@pytest.fixture(params=["jsonl", "json"])
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.mark.parametrize("times", [1, 2])
def test_an_answer_that_equals_a_rewritten_one_is_the_agents_own(tmp_path: Path, form: str, times: int) -> None:
    """Thinking leaves no marker, and such a chat has no ids: which line is whose only their number tells."""
    made = begun(tmp_path, form, *[thought(1)] * times)
    made.says(DONE, DONE)
    assert verify_session(made.path).lines_rewritten == times
    made.is_restored()
    made.says(DONE)
    made.is_restored()


def test_it_stays_so_in_later_runs(tmp_path: Path, form: str) -> None:
    made = begun(tmp_path, form, thought(1))
    for _ in range(2):
        made.says(*ends(DONE, b'{"role": "assistant", "content": "%s"}' % (b"Well. " * 900), thought(1)))
        compress(made.path, EAGER)
    made.is_restored()


def test_it_stays_so_after_a_restore(tmp_path: Path, form: str) -> None:
    """Each run over what a restore left records its lines once more."""
    made = begun(tmp_path, form, thought(1), thought(1))
    for _ in range(2):
        restore_session(made.path)
        compress(made.path, EAGER)
    made.says(DONE)
    made.is_restored()


@pytest.mark.parametrize("answers", [(), (b'{"role": "assistant", "content": "Hm."}',)])
def test_it_stays_so_in_an_older_state(tmp_path: Path, answers: tuple[bytes, ...]) -> None:
    """A later run rewrote an answer there, or in a line that the session does not have."""
    made = begun(tmp_path, "jsonl", thought(1))
    older, said = made.path.read_bytes(), list(made.said)
    made.says(*ends(*answers, thought(1)))
    compress(made.path, EAGER)
    made.path.write_bytes(older)
    made.said = said
    made.says(DONE)
    made.is_restored()


def test_moved_lines_come_back_before_it(tmp_path: Path) -> None:
    made = begun(tmp_path, "jsonl", thought(1), thought(1))
    first, *others = split(made.path.read_bytes())
    assert first == MORE + b"\n"
    made.path.write_bytes(b"".join([*others, DONE + b"\n"]))
    restore_session(made.path)
    assert made.path.read_bytes() == b"".join([*split(made.was)[1:], DONE + b"\n"])


def test_a_copy_of_a_line_with_an_id_comes_back(tmp_path: Path) -> None:
    """No agent writes it a second time but as a copy."""
    path = tmp_path / "session.jsonl"
    lines = enumerate(talk(*ends(thought(1))).splitlines())
    was = b"".join(line[:-1] + b', "id": "%d"}\n' % number for number, line in lines)
    now = compressed(path, was)
    (line,) = set(split(now)) - set(split(was))
    assert PREFIX not in line
    path.write_bytes(now + line)
    restore_session(path)
    assert path.read_bytes() == was + split(was)[1]
