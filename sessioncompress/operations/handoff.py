"""Hand a session off: summarize everything that its model reads, for another session of any agent."""

from __future__ import annotations

import os
from pathlib import Path

from sessioncompress.checkpoints.cut import for_the_model
from sessioncompress.checkpoints.notes import Besides
from sessioncompress.core import text
from sessioncompress.core.checkpoint import NewSession, Summary
from sessioncompress.core.lines import SPOKEN, messages_of, tokens_of
from sessioncompress.core.model import Role
from sessioncompress.errors import Refused, failing
from sessioncompress.operations.draft import Opened, opened
from sessioncompress.operations.goals import Goal, found_in
from sessioncompress.operations.old_part import OldPart
from sessioncompress.operations.user_commands import CANCELED, summed_up, tell_after
from sessioncompress.pipeline.stats import Status, Summarized
from sessioncompress.policy.model import BALANCED, Policy
from sessioncompress.store import disk

_HEAD = "# Handoff\n\nReferences are of the session {}: `sessioncompress show REF SESSION`.\n\n"
_NOTHING = "Nothing was written."


class Handoff(Summarized, frozen=True, rename="camel"):
    """The handoff of a session: markdown, and the number of messages that it summarizes.

    `begun` is the new session's path, or "" if none was requested.
    """

    text: str = ""
    messages: int = 0
    begun: str = ""


def handoff_session(
    path: Path | str,
    policy: Policy = BALANCED,
    *,
    new: bool = False,
    to: Path | None = None,
    goal: str = "",
    instructions: str = "",
    form: str | None = None,
) -> Handoff:
    """Summarize everything that the model reads of a session, without changing it.

    A `goal` heads the summary; a subagent's goal is its task. `instructions` set the focus. The policy's before-command
    is asked first, and its after-command told at the end. With `new`, a new session that starts with the summary is
    written next to this one; with `to`, the summary is written to that file. `form` as in
    compress_session(). Raises SessionCompressError: Refused if there is nothing to summarize, if the before-command
    cancels, if we can't start a session for the agent, or if the new file exists.
    """
    with opened(Path(path), policy, writing=False, adds=False, form=form) as session:
        order = for_the_model(session.read)
        if not any(session.read.lines.roles[number] in {*SPOKEN, Role.CHECKPOINT} for number in order):
            raise session.refused("there is nothing in it to hand off", "Name another session.")
        spoken = (session.read.lines[number] for number in reversed(order))
        last = next((line for line in spoken if line.role in SPOKEN), None)
        # A request is in progress if the last message isn't an answer, or has calls without results.
        splits = last is not None and (last.role is not Role.ASSISTANT or bool(last.calls))
        besides = Besides(found_in(session, Goal(goal)).text, instructions)
        old = OldPart(session, order, budget=policy.compact.summary_tokens, splits=splits, besides=besides)
        plain = _document(session, old.extract)
        if new:
            # Send nothing if no new session can be written for the agent, or if its file exists.
            refuse_taken(_beside(session, _made(session, plain, plain)))
        told = summed_up(old, "handoff", "handoff", ())
        if told is None:
            raise session.refused(CANCELED, _NOTHING)
        summary = told.summary
        document = _document(session, summary)
        begun = ""
        if new:
            made = _made(session, document, plain)
            begun = str(_beside(session, made))
            write_new(Path(begun), made.content)
        if to is not None:
            write_new(to, text.utf8(document).encode())
        return Handoff(
            session.where,
            session.form.name,
            Status.SUMMARIZED,
            text=document,
            messages=messages_of(session.read, frozenset(order)),
            tokens_before=tokens_of(session.read, session.per_token),
            tokens_summary=text.estimate(len(document), session.per_token),
            begun=begun,
            by=summary.by,
            model=summary.model,
            model_failure=told.failure,
            made_elsewhere=not session.is_ours,
            warning=tell_after(policy, session.where, session.form.name, "", document, None),
        )


def refuse_taken(path: Path) -> None:
    """Raise Refused if the file exists, so that the user hears of it before any work; FileFailed."""
    with failing(path, _NOTHING):
        # Otherwise the error would name the temporary file.
        path.parent.stat()
        if os.path.lexists(path):
            raise Refused("the file exists", where=path, state=_NOTHING, remedy="Rename or remove it first.")


def write_new(path: Path, content: bytes) -> None:
    """Write a private file atomically. Raises Refused if it exists, FileFailed."""
    refuse_taken(path)
    with failing(path, _NOTHING):
        disk.put_new(path, content)


def _document(session: Opened, summary: Summary) -> str:
    return f"{_HEAD.format(text.printable(session.where))}{summary.text}\n"


def _made(session: Opened, document: str, seed: str) -> NewSession:
    with session.refusing():
        return session.form.handoff(session.written, session.where, document, seed)


def _beside(session: Opened, made: NewSession) -> Path:
    return session.session.path.parent / made.name
