"""Results of ten tools, one after the other, as the page on previews shows them: from a read to a binary file."""

from __future__ import annotations

import textwrap

from tests.support import blocks
from tests.support.claude import ClaudeSession
from tests.support.story import Story

_CODE = '''\
"""Reads the levels of the tide gauges and fills short gaps."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from tidewatch.stations import StationTable

MAX_GAP = timedelta(minutes=40)
STUCK_AFTER = 12


@dataclass(frozen=True)
class Reading:
    """One level of one gauge, in centimeters above the chart's zero."""

    station: str
    taken_at: datetime
    level_cm: float


class GapTooLong(ValueError):
    """Two readings are too far apart to say what was between them."""


def parse_row(row: str, table: StationTable) -> Reading:
    """Read a row of a gauge's report."""
    station, taken_at, level_cm = row.split(",")
    if station not in table:
        raise KeyError(f"no station {station}")
    return Reading(station, datetime.fromisoformat(taken_at), float(level_cm))


def fill_gaps(readings: list[Reading], step: timedelta) -> list[Reading]:
    """Put readings between those that are apart, on the line between them."""
    filled: list[Reading] = []
    for before, after in zip(readings, readings[1:]):
        missing = (after.taken_at - before.taken_at) // step
        if after.taken_at - before.taken_at > MAX_GAP:
            raise GapTooLong(before.station)
        rise = (after.level_cm - before.level_cm) / missing
        for number in range(missing):
            level = before.level_cm + rise * number
            filled.append(Reading(before.station, before.taken_at + number * step, level))
    return [*filled, readings[-1]]


def is_stuck(readings: list[Reading]) -> bool:
    """Tell whether a gauge repeats itself, as one does that is frozen in."""
    newest = [each.level_cm for each in readings[-STUCK_AFTER:]]
    return len(newest) == STUCK_AFTER and max(newest) == min(newest)


def highest_tide(readings: list[Reading], hours: int = 24) -> Reading:
    """Find the highest level of the last hours."""
    since = readings[-1].taken_at - timedelta(hours=hours)
    return max((each for each in readings if each.taken_at >= since), key=lambda each: each.level_cm)
'''
_FOUND = (
    "alerts.py:31:    threshold = settings.alert_level_cm",
    'alerts.py:58:    if raise_alert(station, level): log.warning("alert", station)',
    "alerts.py:74:def raise_alert(station: str, level: float) -> bool:",
    "daemon.py:22:ALERT_EVERY = 300",
    "daemon.py:104:        await self.alert_queue.put(AlertEvent(station, level))",
    "daemon.py:119:    async def drain_alerts(self) -> None:",
    "mailer.py:17:class AlertMailer:",
    "mailer.py:40:    def render_alert(self, event: AlertEvent) -> str:",
    "mailer.py:63:    smtp_alert_host = os.environ.get('TIDEWATCH_SMTP', 'localhost:1025')",
    "routes/admin.py:88:@router.post('/alerts/{alert_id}/silence')",
    "routes/admin.py:89:async def silence_alert(alert_id: int, until: datetime) -> AlertView:",
    "routes/public.py:19:@router.get('/alerts/open', response_model=list[AlertView])",
)
_FOLDERS = {
    "adr": "0001-one-process 0002-sqlite-only 0003-no-retries 0004-quiet-hours 0005-mail-first",
    "deploy": "ansible-hosts backup-cron restore-drill systemd-unit tls-renewal",
    "gauges": "fennwick hartquay hollisund kelderby kettleby skarvik yarrowby",
    "runbooks": "clock-skew disk-full frozen-gauge mail-bounces silent-gauge storm-surge",
    "screens": "alert-list login map-overlay settings-form station-page",
}
_DIFF = '''\
diff --git a/tidewatch/store.py b/tidewatch/store.py
index 3f1c9aa..b82d04e 100644
--- a/tidewatch/store.py
+++ b/tidewatch/store.py
@@ -14,21 +14,38 @@ class LevelStore:
     def __init__(self, path: Path) -> None:
         self._path = path
-        self._rows: list[Row] = []
+        self._db = sqlite3.connect(path, isolation_level=None)
+        self._db.execute("PRAGMA journal_mode=WAL")
+        self._db.execute(_CREATE_LEVELS)

-    def append(self, row: Row) -> None:
-        self._rows.append(row)
-        self._path.write_text(dump_rows(self._rows))
+    def append_many(self, rows: Iterable[Row]) -> int:
+        """Write rows in one transaction; those that are there are skipped."""
+        with self._db:
+            cursor = self._db.executemany(_INSERT_OR_IGNORE, map(row_values, rows))
+        return cursor.rowcount

-    def newest(self, station: str) -> Row:
-        return next(row for row in reversed(self._rows) if row.station == station)
+    def newest_row(self, station: str) -> Row | None:
+        found = self._db.execute(_NEWEST_OF_STATION, (station,)).fetchone()
+        return Row(*found) if found else None
+
+    def vacuum_before(self, day: date) -> None:
+        """Delete what is older than a day, and give the pages back."""
+        self._db.execute("DELETE FROM levels WHERE taken_at < ?", (day.isoformat(),))
+        self._db.execute("PRAGMA incremental_vacuum")
diff --git a/tidewatch/migrate.py b/tidewatch/migrate.py
new file mode 100644
index 0000000..77c1e02
--- /dev/null
+++ b/tidewatch/migrate.py
@@ -0,0 +1,16 @@
+"""Moves the levels of an installation from CSV into SQLite, once."""
+
+from tidewatch.store import LevelStore, parse_legacy_row
+
+
+def migrate_csv(folder: Path, store: LevelStore) -> int:
+    moved = 0
+    for path in sorted(folder.glob("levels-*.csv")):
+        moved += store.append_many(parse_legacy_row(line) for line in path.open())
+        path.rename(path.with_suffix(".csv.migrated"))
+    return moved
+
+
+if __name__ == "__main__":
+    print(migrate_csv(Path(sys.argv[1]), LevelStore(Path(sys.argv[2]))))
'''
_TESTS = [
    *("test_parse_row", "test_parse_row_without_station", "test_fill_gaps_of_one_step", "test_fill_gaps_at_midnight"),
    *("test_gap_too_long", "test_is_stuck", "test_is_not_stuck", "test_highest_tide", "test_highest_tide_of_an_hour"),
    *("test_store_skips_duplicates", "test_store_survives_restart", "test_vacuum_keeps_today"),
    *("test_migrate_csv_twice", "test_mail_is_sent_once", "test_quiet_hours_hold_mail", "test_silence_expires"),
    "test_clock_skew_is_logged",
]
_FAILED = 11
_TRACE = """\
=================================== FAILURES ===================================
____________________________ test_vacuum_keeps_today ____________________________

tmp_path = PosixPath('/tmp/pytest-of-dev/pytest-4/test_vacuum_keeps_today0')

    def test_vacuum_keeps_today(tmp_path):
        store = LevelStore(tmp_path / "levels.db")
        store.append_many(rows_of_today(count=96))
        store.vacuum_before(TODAY)
>       assert store.count_rows() == 96
E       assert 84 == 96
E        +  where 84 = count_rows()

tests/test_store.py:71: AssertionError
=========================== short test summary info ============================
FAILED tests/test_store.py::test_vacuum_keeps_today - assert 84 == 96
========================= 1 failed, 16 passed in 2.31s =========================
"""
_PAGE = """\
Tides rise and fall twice on most days. The pull of the moon raises two bulges of water, one on the side that faces it
and one on the far side, and the land turns through both. The sun does the same with less than half the strength.

When both pull along one line, at new and full moon, high water is higher and low water lower than usual. Such a tide is
called a spring tide, although it has nothing to do with the season. A week later the two work against each other, and
the range is small.

A storm can add as much as the moon does. Low pressure lets the water rise by about a centimeter for each hectopascal,
and wind that blows toward the land for hours piles it up in bays that narrow. Harbor offices therefore never rely on
the printed table alone. They compare it with the gauge, and they warn by the difference.

A gauge that stands in a pipe is called a stilling well. Waves do not reach the float, because the opening is small, but
mud does, and a well that fills with mud shows a tide that comes late and is too small. Whoever looks only at the
highest level of a day may not notice this for weeks. The delay is the better sign.

In cold winters ice holds the float. The level then stands still while the water moves, and the first thaw brings a jump
that is no flood. Most offices keep a rule for this: a level that does not change for two hours is not believed.
"""
_PARTS = {
    "Where alerts come from": "`alerts.py` decides, `daemon.py` queues, `mailer.py` sends",
    "Where an alert can be lost": "the queue is bounded, and `put_nowait` drops what does not fit",
    "Where an alert can be sent twice": "the row is marked after the mail is accepted, not before",
    "What silence does": "it holds mails back, and sends them all when it ends",
    "What the clock does": "quiet hours use local time, the store uses UTC",
    "What no test covers": "a restart between the mail and the mark",
}
_SENTENCES = (
    "I read the module from the first line to the last and followed each call that leaves it.",
    "The comments and the code agree here, but neither says what happens when the harbor office answers late.",
    "I ran the daemon with a queue of two and sent five levels within a second, and three of them were gone.",
    "The log has a line for the first of them only, because the second and third hit the same branch within the hour.",
    "A change would be small, since the caller already handles a wait, and nothing else depends on the order.",
)
"""They repeat, so that a report is long enough to be shortened."""
_PACKAGES = [
    *("glob", "inflight", "rimraf", "lodash.isequal", "uuid", "har-validator", "request", "querystring"),
    *("source-map-url", "urix"),
]


def ten_tools() -> ClaudeSession:
    """Return a session that uses ten tools, behind which come short turns."""
    made = ClaudeSession("ten-tools")
    made.user("Alerts were lost last night. Find out where, and look at what changed since.")
    numbered = "\n".join(f"{number:>6}\u2192{line}" for number, line in enumerate(_CODE.splitlines(), 1))
    made.step("Read", {"file_path": "/tmp/tidewatch/levels.py"}, numbered)
    found = [f"tidewatch/{part}{each}" for part in ("", "tools/", "legacy/") for each in _FOUND]
    made.step("Grep", {"pattern": "alert", "output_mode": "content", "-n": True}, "\n".join(found))
    listed = [f"./docs/{folder}/{name}.md" for folder, names in _FOLDERS.items() for name in names.split()]
    listed += [f"{each[:-3]}.de.md" for each in listed]
    _run(made, "find . -name '*.md'", "\n".join(sorted(listed)))
    _run(made, "git diff main", _DIFF)
    tests = [
        f"tests/test_store.py::{name} {'FAILED' if number == _FAILED else 'PASSED'} [{(number + 1) * 100 // 17:>3}%]"
        for number, name in enumerate(_TESTS)
    ]
    _run(made, "pytest -v tests/test_store.py", "Exit code 1\n" + "\n".join([*tests, "", _TRACE]), error=True)
    _run(made, "curl -s localhost:8080/api/alerts", _answer_of_an_api())
    made.step("WebFetch", {"url": "https://tides.example/why", "prompt": "How do gauges fail?"}, _PAGE)
    asked = {"description": "Trace alerts", "prompt": "Where can an alert get lost?", "subagent_type": "Explore"}
    made.step("Task", asked, _report())
    _run(made, "npm ci", _installed())
    _run(made, "cat levels.idx", _bytes_of_an_index())
    made.respond("The queue drops alerts when it is full: `put_nowait` in `daemon.py`.")
    return made.turn(5)


def _run(made: ClaudeSession, command: str, output: str, *, error: bool = False) -> None:
    made.step("Bash", {"command": command}, output.rstrip("\n"), error=error)


def _answer_of_an_api() -> str:
    rows = [
        {"id": 48210 + number, "uuid": blocks.hexes(32, "alert", number), "station": name, "level_cm": 180 + number * 7}
        for number, name in enumerate(_FOLDERS["gauges"].split() * 3)
    ]
    return blocks.stringify({"alerts": rows, "nextCursor": "eyJvZmZzZXQiOjIxfQ", "total": 412})


def _report() -> str:
    parts = []
    for number, (heading, bullet) in enumerate(_PARTS.items()):
        said = " ".join([*_SENTENCES[number % 5 :], *_SENTENCES[: number % 5]])
        first, second = (textwrap.fill(f"{opens} {said}", 100) for opens in ("Seen in the code.", "Tried out."))
        parts.append(f"## {heading}\n\n- {bullet}\n\n{first}\n\n{second}")
    return "\n\n".join(parts)


def _installed() -> str:
    warnings = [
        f"npm warn deprecated {name}@{number}.0.4: no longer supported" for number, name in enumerate(_PACKAGES)
    ]
    more = [f"npm warn deprecated {name}@1.{number}.2: use another package" for number, name in enumerate(_PACKAGES)]
    last = ["", "added 412 packages, and audited 413 packages in 9s", "", "found 0 vulnerabilities"]
    return "\n".join([*warnings, *more, *last])


def _bytes_of_an_index() -> str:
    rng = blocks.dice("levels.idx")
    return "".join(
        chr(rng.choice((rng.randint(1, 8), rng.randint(14, 26), rng.randint(33, 126)))) for _ in range(2_400)
    )


STORIES = (Story("claude-tools.jsonl", ten_tools, "claude-code"),)
