"""Rollouts of Codex CLI: one with two compactions and turns that were taken back, one in the form of older versions."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from tests.support import blocks, texts
from tests.support.rollout import Paginated, Rollout, address
from tests.support.stories import tidewatch as tw
from tests.support.story import Story

_COMMANDS: Sequence[tuple[str, Callable[[random.Random], str]]] = (
    ("sed -n '1,220p' src/tidewatch/report.py", lambda rng: texts.python_source(rng, 9)),
    ("rg -n 'silent' src tests", lambda rng: texts.grep_output(rng, 30)),
    ("python -m pytest tests -q", lambda rng: texts.pytest_run(rng, 40)),
    ("tail -100 logs/service.log", lambda rng: texts.log_lines(rng, 36)),
    ("git log --oneline | head -40", lambda rng: texts.git_log(rng, 40)),
    ("cat docs/operations.md", lambda rng: texts.markdown(rng, 7)),
)
_TURNS = (
    ("The pumps of the old lock run at high water. Find out why.", "They read the raw level, spikes and all."),
    ("Let them read the smoothed one.", "The pumps read the smoothed level now, with a test of the night in March."),
    ("Try it with the median of an hour.", "An hour is too long: the pumps start eleven minutes late."),
    ("Then keep the five readings. What else starts them?", "A switch in the lock house, which nothing logs."),
    ("Log it.", "Each turn of the switch is a line of the log, with who was on duty."),
    ("Show it on the page of the lock.", "The page of the lock lists the last ten turns."),
    ("Does the page say when it was made?", "It does now, in the time of the harbour."),
    ("Thanks.", "You're welcome."),
)


def rollout() -> Rollout:
    """Return a rollout with every kind of line that is shortened, two checkpoints, and a turn that was taken back."""
    made = Rollout(seed="codex")
    rng = blocks.dice("codex")
    files = tw.files()
    for number, (asked, answer) in enumerate(_TURNS):
        made.user(asked, [address(40, "lock")] if number == 1 else ())
        made.say("I look at the code first.")
        _steps(made, rng, (5, 4, 3, 5, 4, 3, 2, 0)[number])
        if number == 0:
            made.run("cat .codex/skills/tides/SKILL.md", texts.markdown(rng, 6))
            made.mcp(
                "harbour", "read_log", {"day": "2026-03-02"}, texts.log_lines(rng, 20), {"rows": [texts.prose(rng)]}
            )
        if number in (1, 3, 4):
            _edit(made, rng, files)
        if number == 3:
            made.look("out/lock.png", 60)
            made.run("python -m pytest tests -q", texts.pytest_run(rng, 30, tw.FAILURE), 1)
        made.end(answer)
        if number == 2:
            made.back(1)
        if number in (1, 3):
            made.compact()
    return made


def older() -> Rollout:
    """Return a small rollout of an older version: no item ids, outputs in objects that are written as strings."""
    made = Rollout(seed="codex-older", ids=False)
    rng = blocks.dice("codex-older")
    for asked, answer in _TURNS[:6]:
        made.user(asked)
        command, output = rng.choice(_COMMANDS)
        made.shell(command, output(rng))
        made.local(f"python - <<'EOF'\n{texts.python_source(rng, 2)}\nEOF", texts.json_document(rng, 10))
        made.end(answer)
    return made


def paginated() -> Rollout:
    """Return a rollout of a newer version, with a compaction of Codex's own before its last five turns."""
    made = Paginated(seed="codex-paginated")
    rng = blocks.dice("codex-paginated")
    files = tw.files()
    for number, (asked, answer) in enumerate(_TURNS):
        made.user(asked)
        made.say("I look at the code first.")
        if rows := (60, 40, 0, 40, 0, 15, 0, 0)[number]:
            made.run(f"tail -{rows} logs/service.log", texts.log_lines(rng, rows))
        if number in (1, 4):
            name = "src/tidewatch/report.py"
            old, files[name] = files[name], files[name].replace("\n\n\n", "\n\n\n" + texts.python_source(rng, 1), 1)
            made.patch(name, old, files[name])
        if number == 3:
            made.look("out/lock.png", 30)
            made.run("python -m pytest tests -q", texts.pytest_run(rng, 30, tw.FAILURE), 1)
        made.end(answer)
        if number == 2:
            made.compact()
    return made


def _steps(made: Rollout, rng: random.Random, count: int) -> None:
    for _ in range(count):
        command, output = rng.choice(_COMMANDS)
        made.run(command, output(rng))


def _edit(made: Rollout, rng: random.Random, files: dict[str, str]) -> None:
    """Change a file by a patch, write one by a command, and read one in a script."""
    name = "src/tidewatch/report.py"
    old = files[name]
    files[name] = old.replace(
        "\n\n\n", "\n\n\n" + texts.python_source(rng, 1).split("\n\n\n", 1)[1].rstrip() + "\n\n\n", 1
    )
    made.patch(name, old, files[name])
    made.patch(f"tests/test_{texts.heading(rng).lower().replace(' ', '_')}.py", None, texts.python_source(rng, 4))
    made.run(f"cat > docs/lock.md <<'EOF'\n{texts.markdown(rng, 4)}\nEOF", "")
    read = 'const r = await tools.exec_command({"cmd":"cat data/2026-02-27.csv"}); text(r.output);'
    said = [{"type": "input_text", "text": "Script completed\nWall time 3.3 seconds\nOutput:\n"}]
    made.custom("exec", read, [*said, {"type": "input_text", "text": texts.csv_rows(rng, 40)}])


STORIES = (
    Story("codex.jsonl", rollout, "codex"),
    Story("codex-older.jsonl", older, "codex"),
    Story("codex-paginated.jsonl", paginated, "codex"),
)
