"""Sessions of the agents that grew out of pi: oh-my-pi, OpenClaw, GitClaw."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tests.support import blocks, texts
from tests.support.session import PiSession
from tests.support.stories import tidewatch as tw
from tests.support.stories.chores import Routine
from tests.support.story import Story
from tests.support.variants import OmpGeminiSession, OmpSession, OpenClawSession, blob
from tests.support.workspace import OmpWorkspace, Workspace

_TURNS = (
    (
        "The night shift wants one page that shows which gauges are silent. Where would it go?",
        "Into `report.py`: it already walks all stations, and silence is one more column.",
    ),
    ("Build it.", "The page lists silent gauges first, with the time of their last reading."),
    ("Two gauges are listed twice.", "They had two rows in the station table. The page groups by name now."),
    ("Good. Anything left?", "One thing: the page has no test yet. I can add one."),
    ("Please do.", "Added. It uses three stations, one silent, one listed twice, one fine."),
    ("Thanks, that's all.", "You're welcome."),
)


def oh_my_pi() -> PiSession:
    """Return an oh-my-pi session over Responses, with every kind of copy that oh-my-pi keeps."""
    made = OmpSession(seed="omp")
    rng = blocks.dice("omp")
    made.opening(prompt="You are a coding agent.\n\n" + texts.markdown(rng, 16))
    made.entry("service_tier_change", tier="priority")
    made.entry("credential_pin", provider=made.provider, hash=blocks.hexes(64, "pin"))
    desk = OmpWorkspace(made, tw.files())
    routine = Routine(desk, "omp", 950)
    for number, (asked, answer) in enumerate(_TURNS):
        made.user(asked, [blocks.image(blob("sketch"))] if number == 1 else ())
        if number == 0:
            made.developer("<reminder>\nThe user prefers short answers.\n</reminder>")
            desk.grep("silent", texts.grep_output(rng, 40))
            desk.read("src/tidewatch/report.py", thinking="The report walks all stations, so silence belongs there.")
            desk.bash("python -m tidewatch report", texts.log_lines(rng, 40), artifact=3)
        if number == 2:
            made.entry("title_change", title="Silent gauges", previousTitle="")
            made.entry("ttsr_injection", injectedRules=["short-answers"])
            made.entry("model_usage", model=f"{made.provider}/{made.model}", role="main")
        routine.steps((4, 7, 4, 3, 3, 0)[number])
        made.assistant(made.think("" if number % 2 else "**Summing up**"), answer)
    made.entry("custom", customType="session_exit", data={"reason": "dispose", "kind": "normal"})
    return made


def oh_my_pi_gemini() -> PiSession:
    """Return a small oh-my-pi session over Gemini, whose context begins behind a reset."""
    made = OmpGeminiSession(seed="omp-gemini")
    made.opening(prompt="You are a coding agent.")
    routine = Routine(OmpWorkspace(made, tw.files()), "omp-gemini", 450)
    _turns(routine, _TURNS[:2], 3)
    made.reset()
    made.entry("mode_change", mode="plan")
    _turns(routine, _TURNS[2:4], 3)
    return made


def openclaw() -> PiSession:
    """Return an OpenClaw session, whose command results stand twice: as text and in the details."""
    made = OpenClawSession(seed="openclaw", model="claude-opus-4-6", header={"id": "issue-68"})
    made.opening()
    routine = Routine(OpenClawWorkspace(made, tw.files()), "openclaw", 1300)
    for number, (asked, answer) in enumerate(_TURNS):
        made.user(asked)
        routine.steps((9, 7, 6, 4, 3, 1)[number])
        if number == 2:
            made.poll("calm-quay", "python -m tidewatch watch", texts.log_lines(blocks.dice("poll"), 12))
        made.end_turn(answer)
    return made


def gitclaw() -> PiSession:
    """Return the small pi session that a GitClaw issue points to."""
    made = PiSession(seed="gitclaw", model="claude-sonnet-4-5").opening("medium")
    _turns(Routine(Workspace(made, tw.files()), "gitclaw", 500), _TURNS[:2], 5)
    return made


def gitclaw_issue(session_path: str) -> bytes:
    issue = {"issueNumber": 7, "sessionPath": session_path, "updatedAt": "2026-03-02T09:14:00.000Z"}
    lines = [f"  {blocks.stringify(key)}: {blocks.stringify(value)}" for key, value in issue.items()]
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


class OpenClawWorkspace(Workspace):
    def arguments(self, path: str, **more: Any) -> dict[str, Any]:
        return {"file_path": path, **more}

    def bash(self, command: str, output: str, code: int = 0, **said: Any) -> str:
        made = self.session
        if not isinstance(made, OpenClawSession):
            raise TypeError("exec is a tool of OpenClaw")
        return made.run(command, output, code, thinking=said.get("thinking"))


def _turns(routine: Routine, turns: Sequence[tuple[str, str]], steps: int) -> None:
    for asked, answer in turns:
        routine.desk.session.user(asked)
        routine.steps(steps)
        routine.desk.session.assistant(answer)


_GITCLAW = "state/sessions/2026-03-02T09-00-00-000Z_gitclaw.jsonl"

STORIES = (
    Story("omp.jsonl", oh_my_pi, "oh-my-pi"),
    Story("omp-gemini.jsonl", oh_my_pi_gemini, "oh-my-pi", stays=True),
    Story("openclaw.jsonl", openclaw, "openclaw"),
    Story(f"gitclaw/GITCLAW-layout/{_GITCLAW}", gitclaw, "pi", stays=True),
    Story("gitclaw/GITCLAW-layout/state/issues/7.json", lambda: gitclaw_issue(f".GITCLAW/{_GITCLAW}"), None),
)
