"""Sessions of agents that keep plain messages: gencode's document, chats in OpenAI's form, Gemini CLI's records."""

from __future__ import annotations

from tests.support import blocks, texts
from tests.support.chats import ChatSession, GenCodeSession
from tests.support.records import GeminiRecords
from tests.support.stories import tidewatch as tw
from tests.support.stories.documents import changes
from tests.support.story import Story

_TURNS = (
    ("Which pumps ran last night?", "Three of five, the north one until four in the morning."),
    ("Why so long?", "Its float switch hangs: the level was under the mark from two on."),
    ("Can we see that on the page?", "Yes. The page shows how long a pump runs below its mark."),
    ("And warn?", "After twenty minutes below the mark the office gets a message."),
    ("Try it with last week.", "Two warnings in last week's data, both for the north pump."),
    ("Good. Write it down.", "It stands in `docs/pumps.md`, with how to clear the switch."),
    ("Thanks.", "You're welcome."),
)
_STEPS = (2, 1, 2, 1, 1, 0, 0)


def records() -> GeminiRecords:
    """Return records with two resumes, a way back, and much that later records take the place of."""
    made = GeminiRecords()
    rng = blocks.dice("gemini-records-story")
    for number, (asked, said) in enumerate(_TURNS):
        made.user(asked)
        for _ in range(_STEPS[number]):
            log = texts.log_lines(rng, 12)
            command = {"command": "tail -12 logs/pumps.log", "description": "Reads the end of the log."}
            made.steps("", made.used("run_shell_command", command, log, log), thought=texts.prose(rng, 3))
        if number == 2:
            made.steps("I change the page.", *changes(made, rng, number)[:2])
        made.answer(said, thought=texts.prose(rng, 3))
        if number == 1:
            before = len(made.messages)
            made.user("Or look at the south one first.").answer("It rests.").back(before)
        if number in (1, 4):
            made.resume()
    made.record({"$set": {"summary": "Pumps that run too long"}})
    return made


def chat(turns: int = len(_TURNS)) -> ChatSession:
    """Return a chat of so many turns with a system prompt, edits, images, and reasoning."""
    made = ChatSession().message("system", "You help the harbour office of Tidewatch.")
    rng = blocks.dice("chat-story")
    files = tw.files()
    for number, (asked, said) in enumerate(_TURNS[:turns]):
        picture = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{blocks.hexes(900, 'pump')}"}}
        made.message("user", [{"type": "text", "text": asked}, picture] if number == 1 else asked)
        for _ in range(_STEPS[number]):
            made.step("bash", {"command": "tail -12 logs/pumps.log"}, texts.log_lines(rng, 24))
        if number in (2, 3):
            path = f"src/tidewatch/pumps{number}.py"
            made.step("read_file", {"path": "src/tidewatch/report.py"}, files["src/tidewatch/report.py"])
            made.step("write_file", {"path": path, "content": texts.python_source(rng, 2)}, "ok")
            made.step("grep", {"pattern": "pump"}, [{"type": "text", "text": texts.grep_output(rng, 30)}])
        made.message("assistant", said, reasoning_content=texts.prose(rng, 8))
    return made


def gencode() -> GenCodeSession:
    """Return a session with a call that is signed, results that the agent left out itself, and copies of files."""
    made = GenCodeSession()
    rng = blocks.dice("gencode-story")
    made.message("system", "A summary of what came before: the page lists silent gauges.")
    for number, (asked, said) in enumerate(_TURNS):
        made.message("user", asked)
        for step in range(_STEPS[number]):
            made.step("Bash", {"command": "tail -12 logs/pumps.log"}, texts.log_lines(rng, 24), "I look.")
            if (number, step) == (0, 0):
                pruned = {"content": "[Old tool result content cleared]", "pruned": True, "prunedAt": "2026-03-02"}
                made.messages[-1]["content"][0].update(pruned)
        if number in (2, 3):
            path = f"/tmp/src/tidewatch/pumps{number}.py"
            signed = {"thoughtSignature": blocks.hexes(60, "signature")} if number == 2 else {}
            made.step("Write", {"file_path": path, "content": texts.python_source(rng, 2)}, "Wrote the file.", **signed)
            made.step("Read", {"file_path": path}, texts.numbered(texts.python_source(rng, 2), "│"))
        made.message("assistant", [{"type": "text", "text": said}])
    copies = [{"path": "/tmp/src/tidewatch/pumps2.py", "content": texts.python_source(rng, 2), "messageIndex": 9}]
    made.outer |= {
        "systemPrompt": "You are a coding agent.",
        "summaries": [{"id": "sum-1", "coveringMessages": [1, 40], "content": "The page lists silent gauges."}],
        "fullMessageCount": 70,
        "checkpoints": copies,
    }
    made.outer["metadata"]["completions"] = [{"afterMessageIndex": len(made.messages) - 1}]
    return made


STORIES = (
    Story("gemini.jsonl", records, "gemini"),
    Story("gencode.json", gencode, "gencode"),
    Story("chat.jsonl", chat, "openai-chat"),
    Story("chat.json", lambda: chat(3).document(), "openai-chat"),
)
