"""What the agent writes and replaces in the story over Anthropic."""

from __future__ import annotations

from collections.abc import Sequence

Edits = Sequence[tuple[str, str]]

_MEAN = "    return [fmean(levels[max(0, at - half) : at + half + 1]) for at in range(len(levels))]\n"

SETTLED: Edits = (
    (
        _MEAN,
        _MEAN + "\n\n"
        "def settled(levels: Sequence[float], window: int = WINDOW) -> float | None:\n"
        '    """Return the median of the newest levels, or nothing when there are fewer than three."""\n'
        "    newest = levels[-window:]\n"
        "    return float(median(newest)) if len(newest) >= 3 else None\n",
    ),
    ("from statistics import fmean\n", "from statistics import fmean, median\n"),
)

JUDGED: Edits = (
    (
        "from tidewatch.readings import Reading\nfrom tidewatch.stations",
        "from tidewatch.readings import Reading\nfrom tidewatch.smoothing import settled\nfrom tidewatch.stations",
    ),
    (
        (
            '    """Raise an alert when the newest level passes the station\'s limit."""\n'
            "    newest = max(readings, key=lambda reading: reading.taken_at, default=None)\n"
            "    if newest is None:\n        return None\n"
        ),
        (
            '    """Raise an alert when the settled level passes the station\'s limit; one reading alone never does."""\n'
            "    ordered = sorted(readings, key=lambda reading: reading.taken_at)\n"
            "    level = settled([reading.level_cm for reading in ordered])\n"
            "    if level is None:\n        return None\n"
        ),
    ),
    (
        (
            "    if newest.level_cm >= limit:\n"
            "        return Alert(station.name, newest.level_cm, raised=True)\n"
            "    if newest.level_cm <= CLEAR_AT_CM:\n"
            "        return Alert(station.name, newest.level_cm, raised=False)\n"
        ),
        (
            "    if level >= limit:\n"
            "        return Alert(station.name, level, raised=True)\n"
            "    if level <= CLEAR_AT_CM:\n"
            "        return Alert(station.name, level, raised=False)\n"
        ),
    ),
)

MEDIAN: Edits = (
    ("Return the mean of each level", "Return the median of each level"),
    ("return [fmean(levels[max(0,", "return [median(levels[max(0,"),
    ("import fmean, median", "import median"),
)

GAP_TEST: Edits = (
    (
        "def test_settled_needs_a_full_window() -> None:",
        (
            "def test_a_gap_is_not_a_zero() -> None:\n"
            '    """A gauge that was silent for three hours has no level in that time."""\n'
            "    assert settled([118.0, None, None, None, 121.0]) is None\n\n\n"
            "def test_settled_needs_a_full_window() -> None:"
        ),
    ),
)

GAPS: Edits = (
    ("def settled(levels: Sequence[float],", "def settled(levels: Sequence[float | None],"),
    ("    newest = levels[-window:]\n", "    newest = [level for level in levels[-window:] if level is not None]\n"),
)

MENTION: Edits = (
    (
        "    tidewatch report --since 2026-02-01\n",
        "    tidewatch report --since 2026-02-01\n\nAn alert needs more than one reading: see docs/alerts.md.\n",
    ),
)

DOCUMENT = """# How an alert is decided

A station raises an alert when the **median of its last five readings** passes its limit. One reading alone never does.
With fewer than three readings in the window there is no verdict: the station neither raises nor clears.

| What the gauge sent | What happens |
|---|---|
| one high reading between calm ones | nothing |
| three high readings in a row | alert |
| two readings in five hours | nothing, and `tidewatch quality` shows the gap |

"""
