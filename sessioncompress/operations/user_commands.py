"""A user's commands before and after a summary: their input, the effect of their answers, and their failures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import orjson
from msgspec import DecodeError, Struct, field, json

from sessioncompress.core import process, text
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.lines import messages_of, tokens_of
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError
from sessioncompress.operations.old_part import OldPart, Unusable
from sessioncompress.operations.summarizer import LARGEST_PROMPT, Answered, is_used, or_extract, words_of
from sessioncompress.policy.model import Policy

BEFORE_COMMAND = "beforeCommand"
"""The author of a summary, in the journal, if this command wrote it."""
CANCELED = "the beforeCommand canceled it"
SECONDS = 120.0
"""Time limit of a user's command."""


class CommandAnswer(Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """The answer of the user's before-command.

    With `cancel`, leave the session unchanged. `summary` replaces the prose, and `context` is added. `prompt` is for a
    model, and has no effect without one. `preserve_data` is kept and passed to the command next time.
    """

    cancel: bool = False
    summary: str | None = None
    prompt: str = ""
    context: tuple[str, ...] = ()
    preserve_data: dict[str, Any] = field(default_factory=dict)

    @property
    def preserved(self) -> str:
        """The data to keep, as JSON text; empty if there is none."""
        return orjson.dumps(self.preserve_data).decode() if self.preserve_data else ""


def others_sum_up(policy: Policy) -> bool:
    """True if a command or a model writes the summary. They must not be asked about a session that will be refused."""
    return policy.before_command is not None or is_used(policy.summarizer)


def summed_up(
    old: OldPart, kind: str, rule: str, kept: Sequence[int], *, dry_run: bool = False, sends: bool = True
) -> Answered | None:
    """Summarize with the answer of the user's command, or else with a model. Return None if the command cancels.

    `kind` names the prompt as in or_extract(). `rule` decided which lines are `kept`. Raises FileFailed, UsageError.
    """
    session, command = old.session, old.session.policy.before_command
    answer = CommandAnswer()
    if command is not None:
        answer = _ask_before(command, _given(old, rule, kept, dry_run=dry_run), session.where)
    if answer.cancel:
        return None
    old.add(answer.context)
    if command is None or answer.summary is None:
        told = or_extract(old, kind, answer.prompt, sends=sends)
    else:
        try:
            told = Answered(old.holding(answer.summary, by=BEFORE_COMMAND))
        except Unusable as why:
            raise _failed(command, f"returned an unusable summary: {why}", session.where) from None
    return told._replace(summary=told.summary._replace(preserved=answer.preserved))


def tell_after(policy: Policy, where: str, form: str, run: str, summary: str, record: bytes | None) -> str:
    """Run the user's after-command on the written summary. Return its failure, or ""; the summary stays either way.

    `record` is the journal's record: None if the summary has none, empty if nothing was written.
    """
    if policy.after_command is None or record == b"":
        return ""
    told = {"path": where, "format": form, "run": run, "summary": summary, "record": orjson.loads(record or b"null")}
    try:
        _run(policy.after_command, "afterCommand", told, where)
    except (FileFailed, UsageError) as error:
        return error.what
    return ""


def _given(old: OldPart, rule: str, kept: Sequence[int], *, dry_run: bool) -> Mapping[str, Any]:
    """Return the input of the before-command."""
    session, besides = old.session, old.notes.besides
    reader = session.form.reader()
    earlier = (said.text for said in reader.said(session.entry(old.lines[0])) if said.say is Say.SUMMARY)
    return {
        "path": session.where,
        "format": session.form.name,
        "cut": {
            "rule": rule,
            "splitsTurn": old.notes.splits,
            "messagesOld": messages_of(session.read, frozenset(old.lines)),
            "messagesKept": messages_of(session.read, frozenset(kept)),
        },
        "tokensBefore": tokens_of(session.read, session.per_token),
        "previousSummary": next(earlier, None),
        "files": {"read": old.extract.read, "modified": old.extract.changed},
        "goal": besides.goal,
        "instructions": besides.instructions,
        "summaryTokens": old.room // text.CHARACTERS_PER_TOKEN,
        "preserveData": orjson.loads(session.preserved or "{}"),
        "dryRun": dry_run,
    }


def _ask_before(command: str, given: Mapping[str, Any], where: str) -> CommandAnswer:
    """Ask the before-command about a session.

    Raises FileFailed if it fails or its answer is unusable, UsageError if it isn't a valid command line.
    """
    said = _run(command, BEFORE_COMMAND, given, where)
    try:
        answer = json.decode(said, type=CommandAnswer) if said.strip() else CommandAnswer()
        kept = len(answer.preserved)
    except (DecodeError, ValueError, TypeError, RecursionError) as error:
        raise _failed(command, f"returned an unusable answer: {error}", where) from error
    # preserveData is stored in the journal, so it is limited more tightly.
    for what, size, most in (("preserveData", kept, 16 * 1024), ("a prompt", len(answer.prompt), LARGEST_PROMPT)):
        if size > most:
            raise _failed(command, f"returned {what} of more than {most // 1024} KB", where)
    return answer


def _run(command: str, name: str, given: Mapping[str, Any], where: str) -> bytes:
    words = words_of(command, name, NOT_CHANGED, where)
    ran = process.run(words, orjson.dumps(text.json_safe(given)) + b"\n", seconds=SECONDS, most=1024 * 1024)
    if ran.failure:
        raise _failed(command, f"failed: {ran.failure}", where, name)
    return ran.output


def _failed(command: str, what: str, where: str, name: str = BEFORE_COMMAND) -> FileFailed:
    # Leave out the arguments, which may hold secrets.
    program = command.split(maxsplit=1)[0]
    remedy = "Run the command by hand with such JSON on its stdin, and correct it."
    return FileFailed(f"the {name} {program} {what}", where=where, remedy=remedy)
