"""The action's own logic: what it measures, what it asks the command for, and when it fails."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import orjson
import pytest
import step
from inputs import Inputs, WrongInputError, arguments, inputs_of, to_compact

from sessioncompress.operations import wording
from sessioncompress.operations.compact import CompactStats
from sessioncompress.pipeline.stats import CompressionStats, Status, to_json
from sessioncompress.store.layout import store_in

GIVEN = {
    "SESSIONCOMPRESS_PATHS": "sessions",
    "SESSIONCOMPRESS_CONFIG": "",
    "SESSIONCOMPRESS_PRESET": "",
    "SESSIONCOMPRESS_COMPACT": "false",
    "SESSIONCOMPRESS_ORIGINALS": "commit",
    "SESSIONCOMPRESS_FORCE": "false",
    "SESSIONCOMPRESS_FAIL_IF_LARGER": "true",
}
DONE = CompressionStats(
    "sessions/a.jsonl",
    "pi",
    Status.COMPRESSED,
    original_size=200_000,
    compressed_size=50_000,
    store_size=60_000,
    originals_size=55_000,
    tool_results_compressed=7,
)


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Return the variables of a step that works in an empty folder."""
    monkeypatch.chdir(tmp_path)
    Path("sessions").mkdir()
    files = {"GITHUB_OUTPUT": str(tmp_path / "output"), "GITHUB_STEP_SUMMARY": str(tmp_path / "page")}
    return {**GIVEN, **files, "RUNNER_TEMP": str(tmp_path)}


@pytest.mark.parametrize(("look", "grows", "code"), [("true", 1, 1), ("true", 0, 0), ("false", 1, 0)])
def test_it_fails_where_the_paths_became_larger(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, look: str, grows: int, code: int
) -> None:
    """By what lies on the disk, whatever the command says of it; with `false` it does not look."""
    session = Path("sessions/a.jsonl")
    session.write_bytes(b"x" * 1000)

    def compress(inputs: Inputs) -> tuple[int, bytes]:
        store_in(session).journal.parent.mkdir(parents=True)
        store_in(session).journal.write_bytes(b"y" * (400 + grows))
        session.write_bytes(b"x" * 600)
        return 0, orjson.dumps(wording.document([DONE]))

    monkeypatch.setattr(step, "compress", compress)
    assert step.run({**environ, "SESSIONCOMPRESS_FAIL_IF_LARGER": look}) == code


COMPACTED = CompactStats("sessions/a.jsonl", "pi", Status.COMPACTED, tokens_before=50_000, tokens_after=9_000)


def told(*stats: CompactStats) -> bytes:
    return orjson.dumps({"files": [to_json(each) for each in stats]})


def test_what_a_summary_adds_is_not_looked_at(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Only compressing must make nothing larger; the page tells of both."""
    session = Path("sessions/a.jsonl")
    session.write_bytes(b"x" * 1000)

    def compact(inputs: Inputs) -> tuple[int, bytes]:
        session.write_bytes(b"x" * 1500)
        return 0, told(COMPACTED)

    monkeypatch.setattr(step, "compact", compact)
    monkeypatch.setattr(step, "compress", lambda _: (0, orjson.dumps(wording.document([DONE]))))
    assert step.run(environ) == 0
    page = Path(environ["GITHUB_STEP_SUMMARY"]).read_text()
    assert "With their stores: 1 KB -> 1 KB." in page
    assert "1 session compacted: 50,000 -> 9,000 tokens for the model." in page
    outputs = dict(line.split("=") for line in Path(environ["GITHUB_OUTPUT"]).read_text().splitlines())
    assert Path(outputs["compact-json"]).read_bytes() == told(COMPACTED)
    assert set(outputs) == {"json", "compact-json"}


CODES = [((0, 0), 0), ((4, 0), 4), ((0, 4), 4), ((5, 3), 5), ((4, 5), 5), ((2, None), 2)]


@pytest.mark.parametrize(("codes", "expected"), CODES)
def test_the_worst_code_of_both_commands(
    environ: dict[str, str], monkeypatch: pytest.MonkeyPatch, codes: tuple[int, int | None], expected: int
) -> None:
    """Where the first one does nothing for what it was asked, the second does not begin."""

    def compress(inputs: Inputs) -> tuple[int, bytes]:
        assert codes[1] is not None
        return codes[1], b""

    monkeypatch.setattr(step, "compact", lambda _: (codes[0], b""))
    monkeypatch.setattr(step, "compress", compress)
    assert step.run(environ) == expected


def test_the_codes_of_the_command_come_first(environ: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What failed is worse than a size."""

    def compress(inputs: Inputs) -> tuple[int, bytes]:
        Path("sessions/new").write_bytes(b"x")
        return 4, b""

    monkeypatch.setattr(step, "compress", compress)
    assert step.run(environ) == 4
    assert not Path(environ["GITHUB_OUTPUT"]).exists()


def test_all_that_lies_beside_counts(tmp_path: Path) -> None:
    """Of a folder every file below it; of a file its own originals and journal, once, and no others."""
    sizes = {"a.jsonl": 1, "b.jsonl": 10, "deep/c.json": 100, "other.txt": 1000}
    for name, size in sizes.items():
        path = tmp_path / name
        files = store_in(path)
        files.folder.mkdir(parents=True, exist_ok=True)
        for each in (path, files.originals, files.journal):
            each.write_bytes(b"x" * size)
    assert step.on_disk([str(tmp_path)]) == 3333
    assert step.on_disk([str(tmp_path / "a.jsonl"), str(tmp_path / "deep" / "c.json")]) == 303
    assert step.on_disk([str(tmp_path), str(tmp_path / "deep")]) == 3333
    assert step.on_disk([str(tmp_path / "gone.jsonl")]) == 0


ARGUMENTS: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "nothing else": ({}, ["--json", "--originals-in", "committed", "--", "sessions"]),
    "history": ({"ORIGINALS": "history"}, ["--json", "--originals-in", "history", "--", "sessions"]),
    "none": ({"ORIGINALS": "none"}, ["--json", "--originals-in", "committed", "--no-backup", "--", "sessions"]),
    "the last turn": ({"FORCE": "true"}, ["--json", "--originals-in", "committed", "--force", "--", "sessions"]),
    "policy": (
        {"CONFIG": "a b.json", "PRESET": "low-cost"},
        ["--json", "--originals-in", "committed", "--config", "a b.json", "--preset", "low-cost", "--", "sessions"],
    ),
    "paths": ({"PATHS": "  a b \r\n\n--yes\n"}, ["--json", "--originals-in", "committed", "--", "a b", "--yes"]),
}


@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_command_is_asked_for_what_the_inputs_say(name: str) -> None:
    """Each argument is one, whatever stands in it."""
    given, expected = ARGUMENTS[name]
    environ = {**GIVEN, **{f"SESSIONCOMPRESS_{key}": value for key, value in given.items()}}
    assert arguments(inputs_of(environ)) == ["compress", *expected]


TO_COMPACT: Mapping[str, tuple[Mapping[str, str], list[str]]] = {
    "false": ({}, []),
    "true": ({"CONFIG": "p.json"}, ["--json", "--originals-in", "committed", "--config", "p.json", "--", "sessions"]),
    "if-due": (
        {"ORIGINALS": "none", "PRESET": "low-cost"},
        ["--json", "--originals-in", "committed", "--if-due", "--preset", "low-cost", "--", "sessions"],
    ),
}


@pytest.mark.parametrize("name", TO_COMPACT)
def test_what_comes_first_is_asked_for_what_the_inputs_say(name: str) -> None:
    given, expected = TO_COMPACT[name]
    environ = {**GIVEN, "SESSIONCOMPRESS_COMPACT": name}
    environ |= {f"SESSIONCOMPRESS_{key}": value for key, value in given.items()}
    assert to_compact(inputs_of(environ)) == (["compact", *expected] if expected else [])


@pytest.mark.parametrize("value", ["", "yes", "True", "ifdue"])
def test_another_word_is_an_error(value: str) -> None:
    with pytest.raises(WrongInputError, match="the input 'compact' must be 'false', 'true' or 'if-due'"):
        inputs_of({**GIVEN, "SESSIONCOMPRESS_COMPACT": value})


def test_a_document_holds_what_its_line_says() -> None:
    """The line that `compress` prints can be made of it, with originals and without."""
    for stats in (DONE, CompressionStats("b.jsonl", status=Status.UNCHANGED, reason="nothing to do")):
        (read,) = step.stats_of(orjson.dumps(wording.document([stats])))
        assert read == stats
        assert wording.line(read) == wording.line(stats)
    assert step.stats_of(b"") == []
