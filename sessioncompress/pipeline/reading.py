"""What every command does first with a session: open what lies beside it, and find out whose it is."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from sessioncompress.core.jsonl import document_of, pieces, pieces_of
from sessioncompress.core.lines import Survey
from sessioncompress.errors import NOT_CHANGED, NotASession, Refused
from sessioncompress.formats.base import HEAD_LINES, Format, Head, Name
from sessioncompress.formats.table import NAMELESS, detect, format_named, head_of
from sessioncompress.pipeline.rewritten import RewrittenLines
from sessioncompress.pipeline.survey import CONFLICT, survey
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Beside, size_of
from sessioncompress.store.lock import OpenSession, open_session

if TYPE_CHECKING:
    from sessioncompress.pipeline.answers import Answers


class Known(NamedTuple):
    """A session as it was read: its format, its id, its lines, and which of them the journal knows as rewritten.

    `seen` is whether it looks like one of that format, which a user may have named.
    """

    form: Format
    session_id: str
    survey: Survey
    rewritten: RewrittenLines
    seen: bool


def size_beside(files: Beside) -> int:
    """Return the bytes of what lies beside a session."""
    return sum(size_of(path) or 0 for path in (files.originals, files.journal))


def size_of_names(paths: Iterable[Path]) -> int:
    """Return the bytes that go with these names: those of a file that has another name stay."""
    found = [path.lstat() for path in paths]
    return sum(each.st_size for each in found if each.st_nlink == 1)


def format_of(session: OpenSession, form: str | None = None) -> Format:
    """Return the format that a session's first lines show, or the one of that name, whatever they show.

    Raises UsageError where no format has that name; else what refusal() makes, also where they show no JSON object.
    """
    return _meant(session, head_in(session), form)


def head_in(session: OpenSession) -> Head:
    """Read the first lines of a session, or the messages of a document and what stands around them."""
    document = document_of(session.reader, session.size)
    if document is not None:
        return head_of(document.messages(), document.outer)
    with session.reader() as file:
        return head_of(raw for _, raw, whole in islice(pieces(file, session.size), HEAD_LINES) if whole)


def _recognised(session: OpenSession, head: Head) -> Format:
    form = detect(head)
    if form is None:
        # Imported here, as below, because most sessions are plainly of one format.
        from sessioncompress.pipeline.refusals import refusal

        raise refusal(session, head)
    return form


def _meant(session: OpenSession, head: Head, form: str | None) -> Format:
    if not form:
        return _recognised(session, head)
    known = format_named(form)
    if not head.entries and head.document is None:
        from sessioncompress.pipeline.refusals import refusal

        raise refusal(session, head)
    return known


def whose(path: Path) -> tuple[Format, Name]:
    """Return of which agent the session at a path is, and what its header says of it.

    Raises NotASession, or what open_session() raises.
    """
    with open_session(path, writing=False) as session:
        head = head_in(session)
        form = _recognised(session, head)
        return form, form.named(head)


def refuse_unless_session(session: OpenSession, form: str | None = None) -> None:
    """Raise NotASession where a file shows no session; one that may be of several agents is one."""
    try:
        format_of(session, form)
    except NotASession:
        raise
    except Refused:
        return


def refuse_in_merge(session: OpenSession) -> None:
    """Raise Refused where git could not merge the session: its lines are not yet what they are to be."""
    number = line_in_merge(session)
    if number is not None:
        raise Refused(
            "git could not merge this session, and has put its conflict markers into it",
            where=session.path,
            line=number,
            state=NOT_CHANGED,
            remedy="Finish the merge first: keep the lines of one side, or of both, and take the markers out.",
        )


def line_in_merge(session: OpenSession) -> int | None:
    """Return where the first line is, counted from 1, that git put around what it could not merge; None without any.

    Counted in the file: one line of Gemini CLI may count for several messages.
    """
    with session.reader() as file:
        return next((number + 1 for number, raw, _ in pieces(file, session.size) if CONFLICT.match(raw)), None)


def read_session(session: OpenSession, journal: Journal, form: str | None = None, *, named: bool = True) -> Known:
    """Read a session once, as one of the format of that name, or else of the one that it shows; see format_of().

    Raises NotASession, too, where nobody `named` the file, and it names no agent itself.
    """
    head = head_in(session)
    known = _meant(session, head, form)
    if not (form or named) and known.name in NAMELESS:
        what = f"this looks like a session of the format {known.name}, which names no agent"
        remedy = f"Name the file itself, or say --format {known.name}."
        raise NotASession(what, where=session.path, state=NOT_CHANGED, remedy=remedy)
    rewritten = RewrittenLines(journal)
    found = survey(rewritten.watch(pieces_of(session.reader, session.size)), known, head.parsed)
    return Known(known, known.named(head).id, found, rewritten, seen=not form or known.recognises(head))


def read_answers(session: OpenSession, known: Known) -> Answers:
    """Return the answers that a session records, read once more; see Answers."""
    # Imported here because hardly any policy has a rule that asks for them.
    from sessioncompress.pipeline.answers import answers

    document = document_of(session.reader, session.size)
    if document is not None:
        return answers(document.pieces(), known.survey, known.form, document.outer)
    return answers(pieces_of(session.reader, session.size), known.survey, known.form)
