"""How far a run is: said seldom, on one line of a terminal, and not at all where it takes no time."""

from __future__ import annotations

import io

import pytest

from sessioncompress.operations import schedule
from sessioncompress.operations.schedule import Progress, said

MB = 1024 * 1024

SAID = [
    ((0, 3, 0, 0, 0.0), "100 %, 0 of 3 files, 0.0 of 0.0 MB"),
    ((0, 3, 0, 9 * MB, 2.0), "0 %, 0 of 3 files, 0.0 of 9.0 MB"),
    ((1, 3, 3 * MB, 9 * MB, 2.0), "33 %, 4 s left, 1 of 3 files, 3.0 of 9.0 MB, 1.5 MB/s"),
    ((9, 1200, MB, 100 * MB, 1.0), "1 %, 1 min 39 s left, 9 of 1,200 files, 1.0 of 100.0 MB, 1.0 MB/s"),
    ((9, 1200, MB, 9000 * MB, 1.0), "0 %, 2 h 29 min left, 9 of 1,200 files, 1.0 of 9,000.0 MB, 1.0 MB/s"),
    ((3, 3, 9 * MB, 9 * MB, 2.0), "100 %, 0 s left, 3 of 3 files, 9.0 of 9.0 MB, 4.5 MB/s"),
]


class Stream(io.StringIO):
    """A stream that may be a terminal."""

    def __init__(self, terminal: bool) -> None:
        super().__init__()
        self.terminal = terminal

    def isatty(self) -> bool:
        return self.terminal


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    now = [100.0]
    monkeypatch.setattr(schedule, "monotonic", lambda: now[0])
    monkeypatch.setenv("COLUMNS", "200")
    return now


@pytest.mark.parametrize(("numbers", "text"), SAID)
def test_what_is_said(numbers: tuple[int, int, int, int, float], text: str) -> None:
    assert ", ".join(said(*numbers)) == text


def test_a_line_every_few_seconds(clock: list[float]) -> None:
    stream = Stream(terminal=False)
    shown = Progress(4, 8 * MB, stream)
    for second in (1, 2, 4.9, 5, 6, 9, 10, 11):
        clock[0] = 100 + second
        shown.show()
        if second == 4.9:
            assert stream.getvalue() == ""
            shown.done(2 * MB)
    shown.hide()
    assert stream.getvalue().splitlines() == [
        "25 %, 15 s left, 1 of 4 files, 2.0 of 8.0 MB, 0.4 MB/s",
        "25 %, 30 s left, 1 of 4 files, 2.0 of 8.0 MB, 0.2 MB/s",
    ]


def test_a_bar_on_a_terminal(clock: list[float]) -> None:
    """It goes where something else is to be written, and comes back."""
    stream = Stream(terminal=True)
    shown = Progress(4, 8 * MB, stream)
    shown.show()
    shown.hide()
    assert stream.getvalue() == ""
    clock[0] += 2
    shown.done(2 * MB)
    shown.show()
    bar = "[#####...............] 25 %, 6 s left, 1 of 4 files, 2.0 of 8.0 MB, 1.0 MB/s"
    assert stream.getvalue() == "\r" + bar
    shown.show()
    shown.hide()
    shown.hide()
    assert stream.getvalue() == "\r" + bar + "\r" + " " * len(bar) + "\r"


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (80, "[####............] 25 %, 2 h 29 min left, 12,000 of 48,000 files, 2.0 of 8.0 MB"),
        (50, "[#####...............] 25 %, 2 h 29 min left"),
        (10, "25 %"),
        (3, "25"),
    ],
)
def test_a_narrow_terminal(clock: list[float], monkeypatch: pytest.MonkeyPatch, columns: int, line: str) -> None:
    """What matters least is left out, and nothing is cut."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(schedule, "_MB", 1)
    stream = Stream(terminal=True)
    shown = Progress(48_000, 8, stream)
    shown._done_files = 11_999
    shown.done(2)
    clock[0] += 2980
    shown.show()
    assert stream.getvalue() == "\r" + line


def test_nobody_to_tell(clock: list[float]) -> None:
    shown = Progress(4, 8 * MB, None)
    clock[0] += 99
    shown.show()
    shown.hide()
