"""Nine turns over Anthropic in which tidewatch learns not to believe a single bad reading."""

from __future__ import annotations

from tests.support import texts
from tests.support.blocks import dice
from tests.support.session import PiSession, Use
from tests.support.stories import anthropic_edits as edits
from tests.support.stories import tidewatch as tw
from tests.support.story import Story
from tests.support.workspace import Workspace

_SEED = "pi-anthropic"
_TESTS = "python -m pytest tests"


def session() -> PiSession:
    made = PiSession(seed=_SEED).opening()
    desk = Workspace(made, tw.files())
    for turn in (_why, _that_night, _test_first, _gaps, _archive, _document, _quality, _lint, _commit):
        turn(desk)
    return made


def _think(lead: str, sentences: int = 8) -> str:
    return f"{lead}\n\n{texts.prose(dice(_SEED, lead), sentences)}"


def _why(desk: Workspace) -> None:
    rng = dice(_SEED, 1)
    desk.session.user("The nightly run warned about Skarvik although the tide was normal. Can you find out why?")
    history = texts.listing(rng, 18) + "\n" + texts.git_log(rng, 30)
    desk.session.parallel(
        [
            Use("bash", {"command": "ls -la && git log --oneline | head -30"}, history),
            Use("bash", {"command": "find . -name '*.py' -o -name '*.md' | sort"}, texts.find_output(rng, 70)),
        ],
        thinking=_think(
            "First I want to see how the project is laid out and what changed lately, then follow the path "
            "from a reading to an alert. The log of the nightly run should name the reading."
        ),
        text="I'll look at the project and its recent history first.",
    )
    desk.read("README.md")
    desk.bash("cat pyproject.toml", tw.PYPROJECT)
    desk.bash(
        "tail -180 logs/nightly.log",
        texts.log_lines(rng, 178, "2026-02-27", 0) + "\n" + tw.ALARM,
        thinking=_think("The README says `tidewatch run` writes logs/nightly.log. Its end should hold the alert."),
    )
    desk.read(
        "src/tidewatch/alerts.py",
        thinking=_think(
            "Raised at 03:00 with 304 cm, cleared five minutes later at 122: one reading. "
            "What does `alerts.judge` compare?"
        ),
    )
    desk.read("src/tidewatch/readings.py", text="Only the newest reading counts here. Next: where readings come from.")
    desk.read("src/tidewatch/store.py")
    desk.bash(
        "grep -rn 'limit' src tests | head -60",
        texts.grep_output(rng, 60),
        thinking=_think("Who else uses the limit? If the report compares the same way, the fix belongs in one place."),
    )
    desk.session.assistant(
        "The alert is a false one, and the cause is small: `judge` in `src/tidewatch/alerts.py` compares only the "
        "**newest** reading with the station's limit. At 03:00 Skarvik sent a single 304 cm between readings of "
        "119 and 122 cm, and that one value was enough. `smoothing.smooth` exists, but nothing calls it on this path."
    )


def _that_night(desk: Workspace) -> None:
    desk.session.user("Show me the readings of that night, and how the other stations did in February.")
    desk.read("data/2026-02-27.csv")
    desk.look("out/skarvik-2026-02-27.png", 90, thinking=_think("The report leaves a chart for each station and day."))
    desk.bash("python -m tidewatch report --since 2026-02-01 --table", tw.SUMMARY)
    desk.session.assistant(
        "Here is February, station by station:\n\n```\n" + tw.SUMMARY + "\n```\n\nSkarvik's three spikes are all "
        "single readings. The chart shows the one of the 27th clearly: up for one sample, back on the next. "
        "Dunrock and Brinmouth have gaps, which is another matter: they lose readings instead of inventing them."
    )


def _test_first(desk: Workspace) -> None:
    rng = dice(_SEED, 3)
    desk.session.user("Fix it: judge by the median of the last readings instead of one. Write the test first, please.")
    desk.write(
        "tests/test_smoothing.py",
        tw.TEST_SMOOTHING + "\n\n" + tw.tail(texts.python_source(rng, 9)),
        thinking=_think(
            "The test must tell a spike from a surge: one high value is noise, three in a row are water. "
            "With fewer than three readings there is nothing to trust."
        ),
    )
    desk.read("src/tidewatch/smoothing.py")
    desk.edit("src/tidewatch/smoothing.py", edits.SETTLED)
    desk.edit(
        "src/tidewatch/alerts.py",
        edits.JUDGED,
        thinking=_think("`judge` keeps its signature: it sorts, asks for the settled level and compares that."),
    )
    desk.bash(_TESTS, texts.pytest_run(rng, 118, tw.FAILURE), 1, text="Now the tests.")
    desk.edit(
        "src/tidewatch/smoothing.py",
        edits.MEDIAN,
        thinking=_think(
            "One failure: `smooth` still takes the mean, so the 304 leaks into its neighbours. "
            "The test is right, the code is not."
        ),
    )
    desk.bash(_TESTS, texts.pytest_run(rng, 118))
    desk.session.assistant(
        "Done, test first. `judge` now asks `settled` for the median of the last five readings and stays silent with "
        "fewer than three. The first run had one failure: `smooth` still took the mean, which let the spike leak into "
        "its neighbours. It takes the median now, and all 118 tests pass."
    )


def _gaps(desk: Workspace) -> None:
    rng = dice(_SEED, 4)
    desk.session.user("Brinmouth drops out for hours. What happens to a window with holes in it?")
    desk.read("src/tidewatch/alerts.py", thinking=_think("I changed this file since I read it, so I read it again."))
    desk.read("src/tidewatch/readings.py")
    desk.edit("tests/test_smoothing.py", edits.GAP_TEST)
    desk.bash(_TESTS, texts.pytest_run(rng, 119, tw.GAP_FAILURE), 1)
    desk.edit(
        "src/tidewatch/smoothing.py",
        edits.GAPS,
        thinking=_think("A gap is not a zero. For a window with too many holes the safest answer is to say nothing."),
    )
    desk.bash(_TESTS, texts.pytest_run(rng, 119))
    desk.session.assistant(
        "It crashed: the median of a window with `None` in it is a `TypeError`. `settled` leaves gaps out before it "
        "counts now, so a window with fewer than three real readings gives no level and raises nothing. 119 tests pass."
    )


def _archive(desk: Workspace) -> None:
    rng = dice(_SEED, 7)
    desk.session.user("Replay the February archive with the new rule. How many alerts are left?")
    desk.bash(
        "python -m tidewatch replay data/archive/2026-02 --verbose",
        texts.log_lines(rng, 560),
        thinking=_think("The replay prints every verdict; the count at its end is what the user asked for."),
    )
    desk.bash("python -m tidewatch replay data/archive/2026-02 --count", "alerts before: 11\nalerts after: 4")
    desk.session.assistant("Four of eleven are left, all of them real surges. The other seven were single readings.")


def _document(desk: Workspace) -> None:
    rng = dice(_SEED, 5)
    desk.session.user("Good. Write that down for the operators, in docs, and mention it in the README.")
    desk.read("docs/operations.md")
    desk.write(
        "docs/alerts.md",
        edits.DOCUMENT + texts.markdown(rng, 9),
        thinking=_think("Operators ask one thing at night: is this water or noise? The page should answer that first."),
    )
    desk.edit("README.md", edits.MENTION)
    desk.session.assistant("`docs/alerts.md` explains the rule and its limits, and the README points to it.")


def _quality(desk: Workspace) -> None:
    rng = dice(_SEED, 6)
    desk.session.user("Add a command that lists how far each station can be trusted, worst first.")
    desk.read("src/tidewatch/cli.py", thinking=_think("The commands live in cli.py; the counting gets its own module."))
    desk.write("src/tidewatch/quality.py", tw.QUALITY + "\n\n" + tw.tail(texts.python_source(rng, 4)))
    desk.bash("python -m tidewatch quality --json", texts.json_document(rng, 30))
    desk.bash(_TESTS, texts.pytest_run(rng, 124))
    desk.session.assistant("`tidewatch quality` lists them by score, worst first: Brinmouth, Dunrock, Skarvik.")


def _lint(desk: Workspace) -> None:
    desk.session.user("Run the linters and mypy too.")
    desk.session.parallel(
        [
            Use("bash", {"command": "ruff check ."}, "All checks passed!"),
            Use("bash", {"command": "mypy"}, "Success: no issues found in 41 source files"),
            Use("bash", {"command": "cat pyproject.toml"}, tw.PYPROJECT),
        ]
    )
    old, new = tw.files()["src/tidewatch/alerts.py"], desk.files["src/tidewatch/alerts.py"]
    desk.bash("git diff src/tidewatch/alerts.py", texts.unified_diff(old, new, "src/tidewatch/alerts.py"))
    desk.session.assistant("Both are clean.")


def _commit(desk: Workspace) -> None:
    rng = dice(_SEED, 9)
    desk.session.user("Then commit it.")
    said = "Judge a station by the median of its readings"
    done = f"[main 4be71c0] {said}\n 8 files changed, 312 insertions(+), 19 deletions(-)"
    desk.bash(f"git add -A && git commit -m '{said}'", done)
    desk.bash("git log --oneline | head", f"4be71c0 {said}\n{texts.git_log(rng, 9)}")
    desk.session.assistant(f"Committed as 4be71c0: *{said}*.")


STORIES = (Story("pi-anthropic.jsonl", session, "pi"),)
