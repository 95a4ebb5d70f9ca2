"""Let a model sum up: the way out of the machine, to a command or to an endpoint, and what of its answer counts.

Nothing here is reached unless the user's policy names one of them. No error, and no record, has the key, the address of
an endpoint as it was given, or a word of an answer.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import NamedTuple

from sessioncompress.checkpoints.prompt import Conversation, Prompt
from sessioncompress.core import process
from sessioncompress.core.checkpoint import Summary
from sessioncompress.core.text import estimate, printable, shown_url
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError, failing
from sessioncompress.operations import endpoint
from sessioncompress.operations.endpoint import MOST_ANSWER, ModelFailed
from sessioncompress.operations.old_part import OldPart, Unfit
from sessioncompress.policy.summarizer import OnFailure, Protocol, Summarizer

_PROMPTS = Path(__file__).resolve().parent.parent / "prompts"
LARGEST_PROMPT = 64 * 1024
"""Bytes of a prompt."""
_SHORT = 1_000
"""Tokens of a summary, and no more, for which a model is asked for bullets: sections take much of its 400 words."""


def is_used(rules: Summarizer) -> bool:
    """Tell whether a policy lets a model sum up."""
    return rules.command is not None or rules.endpoint is not None


def check(rules: Summarizer) -> None:
    """Raise UsageError where no model could be asked like this, so that it is said before any work."""
    if rules.command is not None and rules.endpoint is not None:
        raise _wrong("both a command and an endpoint are set to write the summary", "Name one of them.")
    if rules.command is not None:
        _words(rules.command)
        if rules.models or rules.protocol is not Protocol.OPENAI:
            raise _wrong("a command chooses its own model", "Leave out --model and --protocol.")
    elif rules.endpoint is not None:
        _check_endpoint(rules)
    elif rules.models or rules.prompt or rules.protocol is not Protocol.OPENAI:
        raise _wrong(
            "a model, a prompt or a protocol is set, but nothing to write the summary with",
            "Add --summarizer or --endpoint.",
        )
    _redaction(rules)
    if rules.prompt is not None:
        _read_prompt(rules.prompt)
    if rules.command is not None:
        _find_program(rules.command)


def _find_program(command: str) -> None:
    program = _words(command)[0]
    if which(program) is not None:
        return
    # What stands behind the name of a variable may be secret.
    name, sets, _ = program.partition("=")
    remedy = "Correct --summarizer, or summarizer.command in your configuration; it is not run by a shell."
    if sets:
        what = f"the summarizer command begins with the variable {printable(name)} instead of a program"
        raise _wrong(what, "Set the variable before you run sessioncompress.")
    state = "cannot be executed" if Path(program).exists() and os.sep in program else "is not found"
    raise _wrong(f"the summarizer program {printable(program)} {state}", remedy)


def _check_endpoint(rules: Summarizer) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(rules.endpoint or "")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
        is_url = is_url and (rules.endpoint or "").isascii() and (rules.endpoint or "").isprintable()
    except ValueError:
        is_url = False
    if not is_url:
        raise _wrong("the endpoint is not a URL", "Write it as in https://host/v1.")
    if "@" in parts.netloc:
        # It would be sent in place of the key.
        remedy = "Remove the part before the @; the key comes from the variable that --api-key-env names."
        raise _wrong("the endpoint's URL has a user or a password", remedy)
    if rules.protocol is Protocol.OPENAI and not rules.models:
        raise _wrong("the endpoint needs the name of a model", "Add --model.")
    if rules.protocol is Protocol.OMP and rules.models:
        raise _wrong("oh-my-pi's protocol does not take a model", "Leave out --model.")
    key = os.environ.get(rules.api_key_env, "")
    if not (key.isascii() and key.isprintable()):
        what = f"the key in the variable {rules.api_key_env} has a line break or another character that no key has"
        raise _wrong(what, 'Set it without, as in "$(cat FILE)", which takes off the last line break.')
    if find_spec("openai") is None:
        remedy = "Install it: pip install 'sessioncompress[llm]'"
        raise _wrong("an endpoint needs a package that is not installed", remedy)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _wrong(f"the summarizer command cannot be parsed ({error})".lower(), "Check its quotes.") from error
    if not words:
        raise _wrong("the summarizer command is empty", "Name a program.")
    return words


def _redaction(rules: Summarizer) -> Callable[[str], str]:
    """Make what takes out of a text what must not be sent."""
    patterns = []
    for number, each in enumerate(rules.redact_patterns, 1):
        try:
            patterns.append(re.compile(each))
        except (re.error, RecursionError, OverflowError) as error:
            what = f"redaction pattern {number} is not a regular expression ({error})"
            raise _wrong(what, "Correct summarizer.redactPatterns.") from error

    def redact(text: str) -> str:
        for pattern in patterns:
            text = pattern.sub("[redacted]", text)
        return text

    return redact


def _read_prompt(name: str) -> str:
    path = Path(os.path.expanduser(name))  # noqa: PTH111 - leaves a home that is not there as it is
    if not path.is_absolute():
        # Of which folder it were would not be clear, and a session's is anybody's.
        raise _wrong("the prompt's path is not absolute", "Start it with / or ~.")
    with failing(path, _NOTHING_SENT):
        found = path.stat()
        raw = _read(path) if stat.S_ISREG(found.st_mode) else _piped(path, found.st_dev, found.st_ino)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if len(raw) > LARGEST_PROMPT or not text.strip():
        what = f"the prompt is empty, not text, or larger than {LARGEST_PROMPT // 1024} KB"
        raise UsageError(what, where=path, state=_NOTHING_SENT, remedy="Name another file.")
    return text.strip()


def _read(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(LARGEST_PROMPT + 1)


@cache
def _piped(path: Path, device: int, number: int) -> bytes:
    """Read a pipe, as of `--prompt <(...)`, which gives its text once."""
    del device, number
    return _read(path)


_NOTHING_SENT = "Nothing was sent, and no session was changed."


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, state=_NOTHING_SENT, remedy=remedy)


def destination(rules: Summarizer) -> str:
    """Write who gets what was said: the program, or the endpoint's address without what may be secret."""
    if rules.command is not None:
        return f"the command {printable(Path(_words(rules.command)[0]).name)}"
    url = rules.endpoint or ""
    where = "this machine" if endpoint.is_loopback(url) else "not this machine"
    if where != "this machine" and not url.lower().startswith("https:"):
        where += ", and not encrypted on the way"
    return f"{shown_url(url)} ({where})"


class Told(NamedTuple):
    """The summary of a session, why models that were asked have not written it, and what the endpoint says it cost.

    `sent` are the tokens that each of them is given, or would be.
    """

    summary: Summary
    failure: str = ""
    cost: float | None = None
    sent: int = 0


def or_extract(old: OldPart, kind: str, system: str = "", *, sends: bool = True) -> Told:
    """Let a model write the prose of a summary, if the policy names one; the facts stay those of the extract.

    `kind` names the prompt, but for "update", of an earlier summary, and "short", of few tokens; `system` takes its
    place. Gives the extract where no model could, and unless it `sends`. Raises FileFailed where the policy
    wants none then, UsageError.
    """
    session, rules = old.session, old.session.policy.summarizer
    if not is_used(rules):
        return Told(old.extract)
    check(rules)
    conversation = Conversation(rules.input_tokens, _redaction(rules))
    for _, said in old.said():
        conversation.take(said)
    if kind in ("first", "split-turn") and old.budget <= _SHORT:
        kind = "short"
    elif kind == "first" and conversation.has_before:
        kind = "update"
    notes = old.notes
    system = system.strip() or _read_prompt(rules.prompt or str(_PROMPTS / f"{kind}.md"))
    prompt = Prompt(system, conversation.data(old.budget, notes.besides._replace(goal=notes.goal), system=system))
    sent = estimate(len(prompt.whole))
    if not sends:
        return Told(old.extract, sent=sent)
    spent: list[float] = []
    try:
        summary, failure = _ask(old, prompt, spent)
    except ModelFailed as why:
        if rules.on_failure is OnFailure.LEAVE:
            remedy = "Run again, or with --on-failure extractive."
            what = f"no model summarized it: {why}"
            raise FileFailed(what, where=session.where, state=NOT_CHANGED, remedy=remedy) from None
        summary, failure = old.extract, str(why)
    return Told(summary, failure, sum(spent) if spent else None, sent)


def _ask(old: OldPart, prompt: Prompt, spent: list[float]) -> tuple[Summary, str]:
    """Ask the models in their order until an answer passes the checks; say how those before failed.

    Raises ModelFailed where none does.
    """
    rules, failures = old.session.policy.summarizer, list[str]()
    for model in rules.models or ("",):
        try:
            if rules.command is not None:
                return old.holding(_run(rules, prompt, old.session.where), by="command", known=prompt.data), ""
            answer = endpoint.ask(rules, prompt, model, spent)
            return old.holding(answer, by="endpoint", model=model, known=prompt.data), "; ".join(failures)
        except (ModelFailed, Unfit) as error:
            failures.append(f"{printable(model)}: {error}" if model else str(error))
    raise ModelFailed("; ".join(failures))


def _run(rules: Summarizer, prompt: Prompt, where: str) -> str:
    given = prompt.whole.encode(errors="replace")
    done = process.run(_words(rules.command or ""), given, seconds=rules.timeout_seconds, most=MOST_ANSWER)
    if done.ended:
        # No summary without a model either: nobody wants one any more.
        raise FileFailed(f"the summarizer command failed: {done.failure}", where=where, state=NOT_CHANGED)
    if done.failure:
        raise ModelFailed(f"the command failed: {done.failure}")
    return done.output.decode(errors="replace")
