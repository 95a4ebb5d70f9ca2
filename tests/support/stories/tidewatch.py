"""The invented program that the stories work on: tidewatch, which reads tide gauges and warns."""

from __future__ import annotations

from tests.support import texts
from tests.support.blocks import dice

TURNS = (
    ("Which gauges were silent last night?", "Two: North Mole and Old Lock, both from two in the morning on."),
    ("Say so on the page.", "The page lists silent gauges first, with the time of their last reading."),
    ("What woke them up again?", "Nothing did: the gateway was restarted at six, and both report since."),
    ("Write that down.", "It stands in `docs/operations.md`, with the command that restarts the gateway."),
    ("And a test of the page?", "Added. It uses three stations: one silent, one listed twice, one fine."),
    ("Thanks, that's all.", "You're welcome."),
)
"""What is asked and answered, in short stories."""

ALERTS = '''"""Decides when a tide gauge raises an alert."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidewatch.readings import Reading
from tidewatch.stations import Station

RAISE_AT_CM = 240
CLEAR_AT_CM = 215


@dataclass(frozen=True, slots=True)
class Alert:
    """One warning for one station."""

    station: str
    level_cm: float
    raised: bool


def judge(station: Station, readings: Iterable[Reading]) -> Alert | None:
    """Raise an alert when the newest level passes the station's limit."""
    newest = max(readings, key=lambda reading: reading.taken_at, default=None)
    if newest is None:
        return None
    limit = station.limit_cm or RAISE_AT_CM
    if newest.level_cm >= limit:
        return Alert(station.name, newest.level_cm, raised=True)
    if newest.level_cm <= CLEAR_AT_CM:
        return Alert(station.name, newest.level_cm, raised=False)
    return None
'''

SMOOTHING = '''"""Smooths gauge levels before anyone compares them with a limit."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

WINDOW = 5


def smooth(levels: Sequence[float], window: int = WINDOW) -> list[float]:
    """Return the mean of each level and its neighbours."""
    half = window // 2
    return [fmean(levels[max(0, at - half) : at + half + 1]) for at in range(len(levels))]
'''

TEST_SMOOTHING = '''"""Tests of the smoothing that keeps one bad reading from raising an alert."""

from __future__ import annotations

import pytest

from tidewatch.alerts import judge
from tidewatch.readings import Reading
from tidewatch.smoothing import settled, smooth
from tidewatch.stations import Station

SKARVIK = Station("skarvik", limit_cm=240)
NIGHT = [118.0, 121.0, 119.0, 304.0, 122.0, 120.0]


def readings(levels: list[float]) -> list[Reading]:
    """Return one reading for each level, an hour apart."""
    return [Reading("skarvik", f"2026-02-27T{hour:02d}:00Z", level) for hour, level in enumerate(levels)]


def test_one_spike_does_not_raise_an_alert() -> None:
    """The night of 27 February: a single 304 cm between calm readings."""
    alert = judge(SKARVIK, readings(NIGHT[:4]))
    assert alert is not None
    assert not alert.raised


def test_a_real_surge_still_raises_an_alert() -> None:
    """Three high readings in a row are water, not noise."""
    alert = judge(SKARVIK, readings([118.0, 190.0, 251.0, 268.0, 274.0]))
    assert alert is not None
    assert alert.raised


def test_the_median_of_the_window_wins() -> None:
    """Smoothing takes the median, so that one value cannot move it."""
    assert smooth(NIGHT) == pytest.approx([119.0, 120.0, 121.0, 121.0, 121.0, 122.0])


def test_settled_needs_a_full_window() -> None:
    """With fewer than three readings there is nothing to trust."""
    assert settled([301.0, 118.0]) is None
    assert settled([301.0, 118.0, 119.0]) == 119.0
'''

FAILURE = '''__________________ test_the_median_of_the_window_wins __________________

    def test_the_median_of_the_window_wins() -> None:
        """Smoothing takes the median, so that one value cannot move it."""
>       assert smooth(NIGHT) == pytest.approx([119.0, 120.0, 121.0, 121.0, 121.0, 122.0])
E       assert [119.33, 165.5, 156.8, 157.2, 166.25, 182.0] == approx([119.0 ± 1.2e-04, ...121.0 ± 1.2e-04])
E
E         comparison failed. Mismatched elements: 5 / 6:
E         Max absolute difference: 60.0
E         Index | Obtained | Expected
E         (1,)  | 165.5    | 120.0 ± 1.2e-04
E         (2,)  | 156.8    | 121.0 ± 1.2e-04

tests/test_smoothing.py:40: AssertionError
=========================== short test summary info ===========================
FAILED tests/test_smoothing.py::test_the_median_of_the_window_wins'''

GAP_FAILURE = '''________________________ test_a_gap_is_not_a_zero ________________________

    def test_a_gap_is_not_a_zero() -> None:
        """A gauge that was silent for three hours has no level in that time."""
>       assert settled([118.0, None, None, None, 121.0]) is None
E       TypeError: '<' not supported between instances of 'NoneType' and 'float'

src/tidewatch/smoothing.py:21: TypeError
=========================== short test summary info ===========================
FAILED tests/test_smoothing.py::test_a_gap_is_not_a_zero'''

QUALITY = '''"""Counts how far each station's readings can be trusted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tidewatch.readings import Reading


@dataclass(frozen=True, slots=True)
class Quality:
    """What one station delivered."""

    station: str
    readings: int
    spikes: int
    gaps: int

    @property
    def score(self) -> float:
        """The share of readings that are neither spikes nor gaps."""
        return 1 - (self.spikes + self.gaps) / self.readings if self.readings else 0.0


def grade(readings: Iterable[Reading]) -> list[Quality]:
    """Return the quality of each station, worst first."""
    seen: Counter[str] = Counter()
    spikes: Counter[str] = Counter()
    gaps: Counter[str] = Counter()
    for reading in readings:
        seen[reading.station] += 1
        spikes[reading.station] += reading.is_spike
        gaps[reading.station] += reading.level_cm is None
    graded = [Quality(name, count, spikes[name], gaps[name]) for name, count in seen.items()]
    return sorted(graded, key=lambda quality: quality.score)
'''

SUMMARY = """station      readings  mean_cm  max_cm  min_cm  spikes  gaps
skarvik           672    119.4   304.0    61.0       3     0
larvendal         672    131.7   214.0    74.0       0     0
osthavn           669    127.2   221.0    70.0       0     3
kettleby          672    108.9   188.0    49.0       0     0
brinmouth         641    115.3   203.0    58.0       1    31
tarnsund          672    122.6   209.0    66.0       0     0
veldhaven         672    119.8   197.0    63.0       0     0
pellmore          670    133.4   228.0    77.0       1     2
ansterholm        672    126.1   211.0    69.0       0     0
dunrock           655    101.7   179.0    42.0       2    17
hollisund         672    118.2   194.0    60.0       0     0
fennwick          668    121.3   206.0    64.0       0     4
ridgemouth        672    124.8   210.0    68.0       0     0
thornquay         672    110.5   190.0    51.0       0     0
ulverness         671    129.9   219.0    72.0       0     1
westerhamn        672    117.0   193.0    59.0       0     0"""

ALARM = """2026-02-27T03:00:12.418Z WARN  [tidewatch.alerts] raised station=skarvik level_cm=304.0 limit_cm=240
2026-02-27T03:05:11.902Z INFO  [tidewatch.alerts] cleared station=skarvik level_cm=122.0"""

README = """# tidewatch

Reads the levels of tide gauges, smooths them and warns the harbour office before water reaches the quay.

## Use

    tidewatch run --config tidewatch.toml
    tidewatch report --since 2026-02-01

"""

PYPROJECT = """[project]
name = "tidewatch"
version = "0.14.2"
description = "Warns the harbour office before water reaches the quay"
requires-python = ">=3.11"
dependencies = ["httpx>=0.27", "click>=8.1"]

[project.optional-dependencies]
dev = ["pytest>=8", "ruff>=0.6", "mypy>=1.11"]

[project.scripts]
tidewatch = "tidewatch.cli:main"

[tool.pytest.ini_options]
testpaths = ["tests"]
addopts = "-ra --strict-markers"

[tool.ruff]
line-length = 110
target-version = "py311"

[tool.ruff.lint]
select = ["E", "F", "I", "UP", "B", "SIM"]

[tool.mypy]
strict = true
files = ["src", "tests"]

[tool.tidewatch]
stations = ["skarvik", "larvendal", "osthavn", "kettleby", "brinmouth", "tarnsund", "veldhaven", "pellmore"]
poll_seconds = 300
raise_at_cm = 240
clear_at_cm = 215
archive = "data/archive"

[tool.tidewatch.notify]
mail = ["harbour-office@example.org", "night-shift@example.org"]
quiet_hours = "22:00-05:00"
repeat_after_minutes = 90
"""


def files() -> dict[str, str]:
    """Return the program's files as they are before any story."""
    rng = dice("tidewatch")
    made = {
        "README.md": README + texts.markdown(rng, 9),
        "pyproject.toml": PYPROJECT,
        "src/tidewatch/alerts.py": ALERTS + "\n\n" + tail(texts.python_source(rng, 11)),
        "src/tidewatch/smoothing.py": SMOOTHING,
        "docs/operations.md": texts.markdown(rng, 14),
        "data/2026-02-27.csv": texts.csv_rows(rng, 150),
    }
    for name, parts in (("readings", 20), ("stations", 14), ("cli", 17), ("store", 24), ("report", 18)):
        made[f"src/tidewatch/{name}.py"] = texts.python_source(rng, parts)
    return made


def tail(source: str) -> str:
    """Return a module's definitions without its head."""
    return source.split("\n\n\n", 1)[1]
