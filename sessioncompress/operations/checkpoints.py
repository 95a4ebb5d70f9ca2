"""The checkpoints of ours in a session: what stood there before them, and what their summaries refer to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest

from sessioncompress.checkpoints.merge import HEAD
from sessioncompress.core import jsonl
from sessioncompress.core.checkpoint import Say
from sessioncompress.core.documents import undo_of, undone
from sessioncompress.core.jsonl import Piece
from sessioncompress.core.model import Kind, Role
from sessioncompress.core.text import counted
from sessioncompress.errors import NOT_CHANGED, Damaged, Refused
from sessioncompress.operations.unwinding import Unwound
from sessioncompress.pipeline import reading
from sessioncompress.store.journal import Journal
from sessioncompress.store.layout import Store
from sessioncompress.store.lock import OpenSession
from sessioncompress.store.originals import OriginalsReader
from sessioncompress.store.records import BlockRecord, CheckpointRecord, LineRecord


def not_as_written(altered: Sequence[CheckpointRecord]) -> str:
    """Write that checkpoints are not there as they were written; nothing where all are."""
    of = counted(len(altered), "checkpoint is", "checkpoints are")
    return f"{of} no longer as we wrote it: what is left of that stays" if altered else ""


def refuse_if_rewritten(
    session: OpenSession,
    taking: Sequence[CheckpointRecord],
    originals: Path,
    left: bytes,
    ended: Sequence[CheckpointRecord],
) -> None:
    """Raise Refused where a summary of ours stands in a document that was written anew, so that nothing can go back.

    `left` and `ended` are what out_of_document() returned.
    """
    standing = [each for each in taking if each.removed and not each.ended]
    if HEAD.encode() in left and len(ended) < len(standing):
        raise Refused(
            "it cannot be restored exactly: another program rewrote the document after compact took messages from it",
            where=session.path,
            state=NOT_CHANGED,
            remedy=f"'zstd -dc {quote(str(originals))}' prints what compact took. 'restore --keep-checkpoints' puts "
            "back all other lines.",
        )


def out_of_document(
    raw: bytes, taking: Sequence[CheckpointRecord], originals: Path
) -> tuple[bytes, list[CheckpointRecord]]:
    """Take checkpoints out of a document, the newest first; say which were taken."""
    ended = []
    with OriginalsReader(originals) as reader:
        for record in reversed(taking):
            # Also of one that ended: the run that took it out may have been killed before the session changed.
            if record.removed is None:
                continue
            digest, place = record.removed
            try:
                undo = undo_of(reader.line(place, digest))
            except (ValueError, KeyError, TypeError) as error:
                what = "what it stores about a checkpoint cannot be read"
                remedy = "Put it back from a backup."
                raise Damaged(what, where=originals, state=NOT_CHANGED, remedy=remedy) from error
            if (new := undone(raw, undo)) is not None:
                raw = new
                ended.append(record._replace(ended=True))
    return raw, ended


def before_checkpoints(session: OpenSession, journal: Journal, originals: Path) -> Iterator[Piece] | None:
    """Read a session as it was before its checkpoints; None where nothing left it for one."""
    if any(each.dropped for each in journal.checkpoints):
        return Unwound(session, journal, originals, None, journal.checkpoints).pieces()
    document = None
    if any(each.removed for each in journal.checkpoints):
        document = jsonl.document_of(session.reader, session.size)
    before = None if document is None else jsonl.cut(out_of_document(document.raw, journal.checkpoints, originals)[0])
    return None if before is None else before.pieces()


def with_removed(
    session: OpenSession, journal: Journal, originals: Path, missing: list[LineRecord]
) -> list[LineRecord]:
    """Leave out the missing lines that left a session for a checkpoint: they come back with it.

    So are those that a restore hung elsewhere when it took one out, and those of ours that stood in another's place,
    and messages that went with one, where the line that they repeated stands there.
    """
    there = {digest for each in journal.checkpoints for digest in each.rehung}
    dropped = (record for each in journal.checkpoints for record in each.dropped)
    there |= {ours for record in dropped for _, ours, _ in record.runs if ours}
    missing = [each for each in missing if each.sha256 not in there]
    before = before_checkpoints(session, journal, originals) if missing else None
    for _, raw, whole in before or ():
        digest = sha256(raw).digest()
        newest = reading.original_in(raw, digest, reading.row_of(raw, digest, journal), journal) if whole else None
        if newest is not None:
            there.add(journal.original_of(newest).hex())
    missing = [each for each in missing if each.sha256 not in there]
    if missing and journal.checkpoints:
        wanted, found, stands = {each.sha256 for each in missing}, set[str](), False
        for _, raw, whole in jsonl.pieces_of(session.reader, session.size):
            stands = stands or HEAD.encode() in raw
            if whole and (unended := sha256(raw.removesuffix(b"\n")).hexdigest()) in wanted:
                found.add(unended)
        # Without a summary the session is from before it, and what repeated that line went.
        missing = [each for each in missing if stands or each.sha256 not in found]
    return missing


class Referred(NamedTuple):
    """What a summary refers to: where it was said, and the words."""

    record: BlockRecord
    content: bytes


def referred(ref: str, session: OpenSession, journal: Journal, originals: Path) -> Iterator[Referred]:
    """Find what a reference in a summary names: in what was said in the session, as its lines were at first."""
    reader, seen = reading.format_of(session).reader(), set[str]()
    pieces = before_checkpoints(session, journal, originals) or jsonl.pieces_of(session.reader, session.size)
    with ExitStack() as opened:
        kept = opened.enter_context(OriginalsReader(originals)) if journal.counts[0] and journal.store_size else None
        for number, raw, whole in pieces:
            if not whole:
                continue
            row = reading.row_of(raw, sha256(raw).digest(), journal)
            if kept is not None and row is not None and (place := (record := journal.placed(row)).place):
                raw = kept.line(place, record.sha256)  # noqa: PLW2901 - what the agent wrote there
            for said in reader.said(jsonl.parse(raw) or {}):
                for text in said.contents():
                    content = text.encode(errors="surrogatepass")
                    name = xxh3_64_hexdigest(content)
                    if name.startswith(ref) and name not in seen:
                        seen.add(name)
                        kind = Kind.RESULT if said.say is Say.RESULT else Kind.ARGUMENT
                        lines = content.count(b"\n") + 1
                        block = BlockRecord(ref, number, (), kind, said.tool, said.call, len(content), lines, name)
                        yield Referred(block, content)


def refuse_if_compacted(session: OpenSession, store: Store, form: str | None) -> None:
    """Raise Refused where a summary of ours stands in a session without a journal: nobody can take it out again."""
    head = HEAD.encode()
    known = reading.format_of(session, form)
    reader, said = known.reader(), known.reader()
    is_compacted = has_summary = False
    for _, raw, whole in jsonl.pieces_of(session.reader, session.size):
        entry = jsonl.parse(raw) if whole and (head in raw or not is_compacted) else None
        if entry is None:
            continue
        is_compacted = is_compacted or reader.line(raw, entry).role is Role.CHECKPOINT
        if head in raw and any(each.say is Say.SUMMARY and each.text.startswith(HEAD) for each in said.said(entry)):
            has_summary = True
    if is_compacted and has_summary:
        raise Refused(
            "it has a summary that compact wrote, but its store is missing, so the summary cannot be removed",
            where=session.path,
            state=NOT_CHANGED,
            remedy=f"Put its store back ({store.journal} and the originals next to it), or name its folder with "
            "--backup-dir. Without it the session can still be resumed.",
        )
