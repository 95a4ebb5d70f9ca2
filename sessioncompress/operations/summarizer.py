"""Let a model sum up: the way out of the machine, to a command or to an endpoint, and what of its answer counts.

Nothing here is reached unless the user's policy names one of them. No error, and no record, has the key, the address of
an endpoint as it was given, or a word of an answer.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from sessioncompress.checkpoints.digest import gather, room_for_prose, with_prose
from sessioncompress.checkpoints.prompt import Conversation, Prompt
from sessioncompress.checkpoints.prose import missing, paths_in, strike, why_not
from sessioncompress.core import process
from sessioncompress.core.checkpoint import Said, Summary
from sessioncompress.core.text import printable, shown_url
from sessioncompress.errors import NOT_CHANGED, FileFailed, UsageError, failing
from sessioncompress.operations import endpoint
from sessioncompress.operations.draft import Opened
from sessioncompress.operations.endpoint import MOST_ANSWER, ModelFailed
from sessioncompress.policy.model import OnFailure, Protocol, Summarizer

_PROMPTS = Path(__file__).resolve().parent.parent / "prompts"
_LARGEST_PROMPT = 64 * 1024


class _Told(NamedTuple):
    """What a model wrote, and which."""

    text: str
    model: str


def is_used(rules: Summarizer) -> bool:
    """Tell whether a policy lets a model sum up."""
    return rules.command is not None or rules.endpoint is not None


def check(rules: Summarizer) -> None:
    """Raise UsageError where no model could be asked like this, so that it is said before any work."""
    if rules.command is not None and rules.endpoint is not None:
        raise _wrong("a command and an endpoint are both to sum up", "Name one of them.")
    if rules.command is not None:
        _words(rules.command)
        if rules.models or rules.protocol is not Protocol.OPENAI:
            raise _wrong("a command chooses its model itself", "Leave out --model and --protocol.")
    elif rules.endpoint is not None:
        _check_endpoint(rules)
    elif rules.models or rules.prompt or rules.protocol is not Protocol.OPENAI:
        raise _wrong(
            "a model, a prompt or a protocol is named, and nobody who sums up", "Add --summarizer or --endpoint."
        )
    _redaction(rules)
    if rules.prompt is not None:
        _read_prompt(rules.prompt)


def _check_endpoint(rules: Summarizer) -> None:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(rules.endpoint or "")
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        is_url = False
    if not is_url:
        raise _wrong("the endpoint is no URL", "Write it as in https://host/v1.")
    if rules.protocol is Protocol.OPENAI and not rules.models:
        raise _wrong("the endpoint needs the name of a model", "Add --model.")
    if rules.protocol is Protocol.OMP and rules.models:
        raise _wrong("the protocol of oh-my-pi names no model", "Leave out --model.")
    if find_spec("openai") is None:
        remedy = "Install it: pip install 'sessioncompress[llm]'"
        raise _wrong("an endpoint needs a package that is not installed", remedy)


def _words(command: str) -> list[str]:
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise _wrong(f"the command that sums up cannot be read ({error})".lower(), "Check its quotes.") from error
    if not words:
        raise _wrong("the command that sums up is empty", "Name a program.")
    return words


def _redaction(rules: Summarizer) -> Callable[[str], str]:
    """Make what takes out of a text what must not be sent."""
    patterns = []
    for number, each in enumerate(rules.redact_patterns, 1):
        try:
            patterns.append(re.compile(each))
        except (re.error, RecursionError, OverflowError) as error:
            what = f"the {number}. of the patterns to redact is no regular expression ({error})"
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
        raise _wrong("the prompt's path is not absolute", "Write it from / or ~ on.")
    with failing(path, _NOTHING_SENT), path.open("rb") as file:
        raw = file.read(_LARGEST_PROMPT + 1)
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        text = ""
    if len(raw) > _LARGEST_PROMPT or not text.strip():
        what = f"the prompt is empty, no text, or has more than {_LARGEST_PROMPT // 1024} KB"
        raise UsageError(what, where=path, state=_NOTHING_SENT, remedy="Name another file.")
    return text.strip()


_NOTHING_SENT = "Nothing was sent, and no session is changed."


def _wrong(what: str, remedy: str) -> UsageError:
    return UsageError(what, state=_NOTHING_SENT, remedy=remedy)


def destination(rules: Summarizer) -> str:
    """Write who gets what was said: the program, or the endpoint's address without what may be secret."""
    if rules.command is not None:
        return f"the command {printable(Path(_words(rules.command)[0]).name)}"
    url = rules.endpoint or ""
    where = "this machine" if _is_loopback(url) else "not this machine"
    return f"{shown_url(url)} ({where})"


def _is_loopback(url: str) -> bool:
    from ipaddress import ip_address
    from urllib.parse import urlsplit

    host = urlsplit(url).hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def or_extract(
    session: Opened,
    old: Sequence[int],
    extract: Summary,
    kind: str,
    *,
    budget: int,
    splits: bool = False,
    goal: str = "",
    instructions: str = "",
) -> tuple[Summary, str]:
    """Let a model write the prose of a summary, if the policy names one; the facts stay those of the extract.

    `kind` names the prompt; where an earlier summary is brought up to date, "first" is "update". Returns the extract
    where no model could, and why. Raises FileFailed where the policy wants none then, UsageError.
    """
    rules = session.policy.summarizer
    if not is_used(rules):
        return extract, ""
    check(rules)
    conversation = Conversation(rules.input_tokens, _redaction(rules))

    def heard() -> Iterator[tuple[int, Said]]:
        for number, said in session.said(old):
            conversation.take(said)
            yield number, said

    notes = gather(heard(), splits=splits)
    if kind == "first" and conversation.has_before:
        kind = "update"
    system = _read_prompt(rules.prompt or str(_PROMPTS / f"{kind}.md"))
    prompt = Prompt(system, conversation.data(budget, goal, instructions))
    most = room_for_prose(notes, budget)

    def checked(answer: str) -> str:
        if why := why_not(answer, most):
            raise ModelFailed(why)
        texts = (text for _, said in session.said(old) for text in said.contents())
        known = "\n".join([*extract.changed, *extract.read, prompt.data])
        unknown = missing(missing(paths_in(answer), [known], notes.root), texts, notes.root)
        answer = strike(answer, unknown)
        if why := why_not(answer, most):
            raise ModelFailed(why)
        return answer

    try:
        told = _ask(rules, prompt, checked)
    except ModelFailed as why:
        if rules.on_failure is OnFailure.EXTRACTIVE:
            return extract, str(why)
        remedy = "Run again, or with --on-failure extractive."
        what = f"no model has summed it up: {why}"
        raise FileFailed(what, where=session.where, state=NOT_CHANGED, remedy=remedy) from None
    by = "command" if rules.command is not None else "endpoint"
    return with_prose(notes, budget, told.text)._replace(by=by, model=told.model), ""


def _ask(rules: Summarizer, prompt: Prompt, checked: Callable[[str], str]) -> _Told:
    """Ask the models in their order until an answer passes the checks. Raises ModelFailed."""
    failures = []
    for model in rules.models or ("",):
        try:
            answer = _run(rules, prompt) if rules.command is not None else endpoint.ask(rules, prompt, model)
            return _Told(checked(answer), model)
        except ModelFailed as error:
            failures.append(f"{printable(model)}: {error}" if model else str(error))
    raise ModelFailed("; ".join(failures))


def _run(rules: Summarizer, prompt: Prompt) -> str:
    given = prompt.whole.encode(errors="replace")
    done = process.run(_words(rules.command or ""), given, seconds=rules.timeout_seconds, most=MOST_ANSWER)
    if done.failure:
        raise ModelFailed(f"the command failed: {done.failure}")
    return done.output.decode(errors="replace")
