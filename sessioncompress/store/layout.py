"""The paths and lengths of a session's files."""

from __future__ import annotations

import os
import re
import sys
import time
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from sessioncompress.errors import FileFailed, Refused, UsageError
from sessioncompress.policy.model import Policy
from sessioncompress.store.machine import READING, folder_name, is_signed

FOLDER = ".sessioncompress"
PACKS = "packs"
NEVER = frozenset({FOLDER, ".git", "node_modules"})
"""Folders that are never searched for sessions, and to which none is unpacked."""
ARCHIVE = ".tar.zst"
JOURNAL = ".refs.jsonl"
_IS_LOCAL = re.compile(r"local-[0-9a-f]{8}")
HISTORY = ".history"
ORIGINALS = ".originals.zst"
_ZST = ".zst"
ENDINGS = (JOURNAL, _ZST)
"""The endings of the names of a store's files."""
_ENDINGS = (".json", ".jsonl")
_UNNAMED = ".session"
"""Part of a journal's name if the session's own name has no known ending."""


class Store(NamedTuple):
    """The files of one session.

    `folder` holds `originals` and `journal`; `work` takes temp files and late links. `work` is always on the session's
    own file system, so that renames and hard links work.

    A store that git must not see is in a folder of this user on this machine, named `local-` and eight digits. That
    folder is in our folder next to the session, or in the backup folder; no branch, clone or archive can contain that
    name. A committed store is directly in our folder, like every store of 1.0.0.
    """

    folder: Path
    originals: Path
    journal: Path
    work: Path

    @property
    def is_hidden(self) -> bool:
        """True if it is in a local-* folder, which git does not see."""
        return self.journal.name.endswith(HISTORY)

    @property
    def is_beside(self) -> bool:
        """True if it is next to the session, not in a backup folder."""
        return self.work in (self.folder, self.folder.parent)

    @property
    def is_ours(self) -> bool:
        """True if this user made it on this machine."""
        return self.folder.name == folder_name()

    @property
    def size(self) -> int:
        """The bytes of its files."""
        return sum(size_of(path) or 0 for path in (self.originals, self.journal))


class Lengths(NamedTuple):
    """The bytes of each file that the last run record commits; a crash left anything after them."""

    originals: int = 0
    journal: int = 0


def store_in(session: Path, backup_dir: Path | None = None, *, shown: bool = False) -> Store:
    """Find the store of a session, next to it or in a backup folder that sessions of many folders share.

    Look in this user's folder, then where git may have put it, then in folders of other machines or users, which a copy
    of everything brings. If several are complete, _chosen() decides. If there is none, return the one that a run would
    begin, `shown` to git or not. Raises FileFailed; see holds().
    """
    plain = plain_in(session, backup_dir)
    own = hidden_in(session, folder_name(), backup_dir)
    # Without a key nothing is this user's, whatever its name.
    found = [each for each in ((own, plain) if folder_name() else (plain,)) if holds(each)]
    if not any(os.path.lexists(each.journal) for each in found):
        # List a folder of many stores only if needed.
        others = (hidden_in(session, name, backup_dir) for name in locals_in(plain.folder))
        found += [each for each in others if holds(each) and each != own]
    if not found:
        return plain if shown or not folder_name() else own
    whole = [each for each in found if os.path.lexists(each.journal)] or found
    if len(whole) == 1:
        return whole[0]
    files = map(status_of, (session, *(file for each in whole for file in (each.journal, each.originals))))
    states = tuple(each and (each.st_ino, each.st_size, each.st_mtime_ns) for each in files)
    return whole[_chosen(session, tuple(whole), states)]


@lru_cache(maxsize=16)
def _chosen(session: Path, whole: tuple[Store, ...], _states: object) -> int:
    """Return the index of the store whose runs made the session what it is now; the first one of equals.

    A branch brings its own session with its own store. So take the store with the run that left the longest beginning
    of the session. But another user's journal may name any state. So if no run of this user left a beginning, as after
    an agent rewrote the session, take the store that knows the most lines with our markers. Another user's
    store can't know more of them than this user's own, unless that other user's runs wrote them. Only lines that a run
    rewrote prove this: others who compact the same session write the same summary, and may have dropped lines for it.
    """
    own, other = whole[:2]
    if (
        not other.is_hidden
        and _are_equal(own.journal, other.journal)
        and size_of(own.originals) == size_of(other.originals)
    ):
        # It was committed since. Clones need its next originals too; but a branch may have brought it damaged.
        return int(not os.path.lexists(own.originals) or _are_equal(own.originals, other.originals))
    left = [_left(store, session) for store in whole]
    if not any(is_known for is_known, *_ in left):
        rewritten, summaries = _digests_in(session, summaries=False), _digests_in(session, summaries=True)
        known = [
            tuple(len(made) for there in (rewritten, summaries) for made in _made_by(store.journal, there))
            for store in whole
        ]
        if max(known)[1] or not any(size for _, size, *_ in left):
            return known.index(max(known))
    # The list is in the order of the stores, and index() finds the first maximum.
    return left.index(max(left))


def _left(store: Store, session: Path) -> tuple[bool, int, bool, bool]:
    """Rate how well a store fits a session: greater is better.

    The rating is about the longest beginning of the session that a run left: is that run this user's, its length in
    bytes, did a run other than a restore leave it, and do clones have the store. The last is False if others added runs
    to the store or it lacks originals.
    """
    from sessioncompress.store import disk

    # For each state that a run left: was a run this user's, and was one no restore?
    noted: dict[tuple[int, str], tuple[bool, bool]] = {}
    is_shared, kept = not store.is_hidden, 0
    for record, is_known, _ in _runs_of(store.journal):
        state, is_restored, kept = _state_in(record)
        is_shared = is_shared and is_known
        known, stands = noted.get(state, (False, False))
        noted[state] = known or is_known, stands or not is_restored
    longest = (False, 0, False, False)
    with (
        suppress(OSError),
        disk.closing(os.open(session, READING)) as fd,
        disk.reader(fd, 0, os.fstat(fd).st_size) as file,
    ):
        for state in begins_with(file, [each for each in noted if each[0] >= _LEAST]):
            is_known, stands = noted[state]
            longest = max(longest, (is_known, state[0], stands, is_shared and (size_of(store.originals) or 0) >= kept))
    return longest


def _runs_of(journal: Path, there: Container[str] = ()) -> Iterator[tuple[bytes, bool, set[str]]]:
    """Yield each run record of a journal, whether this user made it on this machine, and what the run wrote.

    The last is a set of the SHA-256 of written lines, limited to those in `there`.
    """
    from hashlib import sha256

    seen, made = sha256(named_in(journal)), set[str]()
    for record in _records_of(journal):
        if record.startswith(_RUN):
            yield record, is_signed(seen, record), made
            made = set()
        seen.update(record)
        made.update(each for each in map(bytes.decode, _MADE.findall(record)) if each in there)


def begins_with(file: BinaryIO, states: Iterable[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """Yield the states that a file begins with, shortest first; each is a size in bytes and the XXH3-128 in hex."""
    from xxhash import xxh3_128

    from sessioncompress.store.disk import BUFFER

    seen, position = xxh3_128(), 0
    for size, digest in sorted(set(states)):
        while position < size and (data := file.read(min(size - position, BUFFER))):
            seen.update(data)
            position += len(data)
        if position == size and seen.hexdigest() == digest:
            yield size, digest


def _state_in(record: bytes) -> tuple[tuple[int, str], bool, int]:
    """Return the state that a run left, whether the run was a restore, and the length of the originals.

    An unreadable record gets the size -1, which no session has.
    """
    import orjson

    with suppress(ValueError):
        found = orjson.loads(record)
        size, digest, kept = (found.get(name) for name in ("compressedSize", "compressedXxh3", "storeSize"))
        if isinstance(size, int) and isinstance(digest, str) and isinstance(kept, int):
            # A run that writes a checkpoint right after a restore repeats the restore's note about the lines.
            is_restored = found.get("restored") is True and found.get("command") not in ("compact", "branch-summary")
            return (size, digest), is_restored, kept
    return (-1, ""), False, 0


def writers(journal: Path, session: Path) -> list[bool]:
    """List, for each run that wrote a line or message of the session, True if this user made it.

    Ignore restores, and short lines, which any session may have. The list is empty if a file can't be read.
    """
    runs = _runs_of(journal, _digests_in(session))
    return [is_known for record, is_known, made in runs if made and not _state_in(record)[1]]


class OtherStores:
    """The other stores of a session, and the lines of it that only runs recorded in them made."""

    def __init__(self, session: Path, store: Store, backup_dir: Path | None = None) -> None:
        self.all = [each for each in all_stores(session, backup_dir) if each != store]
        self.stores = [each for each in self.all if os.path.lexists(each.journal)]
        self._journal, self._there = store.journal, dict[str, bytes]()

    def note(self, raw: bytes) -> None:
        """Add a line or message of the session."""
        if self.stores:
            self._there |= _digests_of(raw)

    def known(self, pieces: Iterable[tuple[int, bytes, bool]] = ()) -> dict[Path, int]:
        """Count, for each other journal, the noted and given lines that it knows and the journal in use does not."""
        for _, raw, _ in pieces if self.stores else ():
            self.note(raw)
        ours = self._made(self._journal) if self.stores else set()
        return {each.journal: len(self._made(each.journal) - ours) for each in self.stores}

    def _made(self, journal: Path) -> set[bytes]:
        return _made_by(journal, self._there)[0]


def _digests_in(session: Path, *, summaries: bool | None = None) -> dict[str, bytes]:
    """Map the digests of the lines and messages of a session; see _digests_of().

    Limited to those with our summaries, or to the others with our markers, if `summaries` is not None.
    """
    from sessioncompress.core.jsonl import begins_document, pieces, pieces_of
    from sessioncompress.core.marker import HEAD, PREFIX_BYTES
    from sessioncompress.store import disk

    def counts(raw: bytes) -> bool:
        is_summary = HEAD.encode() in raw
        return summaries is None or (is_summary if summaries else PREFIX_BYTES in raw and not is_summary)

    found: dict[str, bytes] = {}
    with suppress(OSError), disk.closing(os.open(session, READING)) as fd:
        size = os.fstat(fd).st_size

        def reader() -> BinaryIO:
            return disk.reader(fd, 0, size)

        # A line that sets messages counts, and so does each of the messages. Runs never write the lines of a document.
        lines = () if begins_document(reader, size) else pieces(reader(), size)
        for _, raw, whole in chain(pieces_of(reader, size), lines):
            if whole and counts(raw):
                found |= _digests_of(raw)
    return found


def _digests_of(raw: bytes) -> dict[str, bytes]:
    """Map the SHA-256 of a line or message, with each possible line end, to the one without; skip short ones.

    A summary in a document is laid out like the document's other messages, but runs note its digest in compact form.
    """
    from hashlib import sha256

    import orjson

    if len(raw) < _LEAST:
        return {}
    bare = raw.removesuffix(b"\n").removesuffix(b"\r")
    name, forms = sha256(bare).digest(), [bare]
    if b"\n" in bare:
        with suppress(ValueError):
            forms.append(orjson.dumps(orjson.loads(bare)))
    return {sha256(form + end).hexdigest(): name for form in forms for end in (b"", b"\n", b"\r\n")}


def _made_by(journal: Path, there: Mapping[str, bytes]) -> tuple[set[bytes], set[bytes]]:
    """Return the lines in `there` that the runs of a journal wrote, and those that this user's runs wrote."""
    runs = [(is_known, {there[each] for each in made}) for _, is_known, made in _runs_of(journal, there)]
    return set().union(*(made for _, made in runs)), set().union(*(made for is_known, made in runs if is_known))


def _records_of(journal: Path) -> Iterator[bytes]:
    from sessioncompress.store import disk

    with (
        suppress(OSError),
        disk.closing(os.open(journal, READING)) as fd,
        disk.reader(fd, 0, os.fstat(fd).st_size) as file,
    ):
        yield from iter(lambda: file.readline(LONGEST), b"")


def _are_equal(file: Path, other: Path) -> bool:
    from sessioncompress.store import disk

    with (
        suppress(OSError),
        disk.closing(os.open(file, READING)) as fd,
        disk.closing(os.open(other, READING)) as there,
    ):
        size = os.fstat(fd).st_size
        are_as_long = size == os.fstat(there).st_size > 0
        return are_as_long and disk.sha256_of(fd, 0, size) == disk.sha256_of(there, 0, size)
    return False


def all_stores(session: Path, backup_dir: Path | None = None) -> list[Store]:
    """List all existing stores of a session. A branch or a copy may have brought a second one."""
    return with_drafts(session, backup_dir)[0]


def with_drafts(session: Path, backup_dir: Path | None) -> tuple[list[Store], list[Path]]:
    """List all existing stores of a session, and the drafts of a killed run that was copying one."""
    plain = plain_in(session, backup_dir)
    places = [plain, *(hidden_in(session, name, backup_dir) for name in locals_in(plain.folder))]
    named = (draft_of(path) for each in places for path in (each.originals, each.journal))
    return [each for each in places if holds(each)], [each for each in named if os.path.lexists(each)]


def draft_of(path: Path) -> Path:
    """Return the path of a store's file while it is copied."""
    return path.with_name(f"{path.name}.new")


def plain_in(session: Path, backup_dir: Path | None = None) -> Store:
    """Return the files of a store that git sees, that is in a bucket, or that 1.0.0 made."""
    # A journal's name lacks `.jsonl`, unless the rest would then end like another session's journal.
    stem = session.name.removesuffix(".jsonl")
    if not session.name.endswith(_ENDINGS):
        stem += _UNNAMED
    elif stem == "" or stem.endswith((*_ENDINGS, _UNNAMED)):
        stem = session.name
    work = session.parent / FOLDER
    folder, home = (work, "") if backup_dir is None else (backup_dir, _home(session.parent))
    return Store(folder, folder / f"{home}{session.name}{_ZST}", folder / f"{home}{stem}{JOURNAL}", work)


def hidden_in(session: Path, name: str, backup_dir: Path | None = None) -> Store:
    """Return the files of a store in the folder `name`, which is this user's or another's."""
    work = session.parent / FOLDER
    folder, home = (work / name, "") if backup_dir is None else (backup_dir / name, _home(session.parent))
    return Store(folder, folder / f"{home}{session.name}{ORIGINALS}", folder / f"{home}{session.name}{HISTORY}", work)


def locals_in(folder: Path) -> list[str]:
    """List the folders of hidden stores, this user's and others', in our folder or a backup folder.

    Without those that other users closed, as in a folder that several share.
    """
    with suppress(OSError):
        return [name for name in _told_by_name(folder)[0] if not _is_closed(folder / name)]
    return []


def _is_closed(folder: Path) -> bool:
    """Return True if a folder is another user's, and this one may not look into it."""
    found = None
    with suppress(OSError):
        found = folder.lstat()
    if found is None or sys.platform == "win32" or folder.name == folder_name():
        return False
    return found.st_uid != os.geteuid() and not os.access(folder, os.R_OK | os.X_OK)


def is_local(name: str) -> bool:
    """Return True if a folder with this name holds hidden stores, this user's or another's."""
    return _IS_LOCAL.fullmatch(name) is not None


def stores_in(folder: Path, backup_dir: Path | None = None) -> list[tuple[Path, Store]]:
    """List the sessions of a folder with each of their stores, next to them or in a backup folder.

    If a session has several stores, those in this user's folder are first. Raises OSError if a folder of stores can't
    be read.
    """
    plain = plain_in(folder / "session.jsonl", backup_dir)
    home = "" if backup_dir is None else _home(folder)
    found: dict[Store, Path] = {}
    for local in sorted(locals_in(plain.folder), key=lambda name: name != folder_name()):
        if not (plain.folder / local).is_dir():
            # A clone may bring a file with such a name.
            continue
        for name in sorted(os.listdir(plain.folder / local)):
            session = name.removesuffix(ORIGINALS if name.endswith(ORIGINALS) else HISTORY).removeprefix(home)
            if name.endswith((ORIGINALS, HISTORY)) and name.startswith(home) and may_own(session):
                found[hidden_in(folder / session, local, backup_dir)] = folder / session
    with suppress(FileNotFoundError, NotADirectoryError):
        for _, session in owners(plain, sorted(os.listdir(plain.folder))):
            found[plain_in(folder / session, backup_dir)] = folder / session
    return [(session, store) for store, session in found.items()]


def journals_in(folder: Path) -> list[Path]:
    """List the journals in our folder of a folder, and in all folders of a backup folder; this user's are first."""
    found: list[Path] = []
    for base in (folder / FOLDER, folder):
        names = _listed_in(base)
        for local in sorted(filter(is_local, names), key=lambda name: name != folder_name()):
            found += [base / local / name for name in _listed_in(base / local) if name.endswith(HISTORY)]
        found += [base / name for name in names if name.endswith(JOURNAL)]
    return found


def _listed_in(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def is_own(file: Path) -> bool:
    """Return True if this user or root owns a file. Trust no other user's file next to a session."""
    found = status_of(file)
    return found is not None and (sys.platform == "win32" or found.st_uid in (0, os.geteuid()))


def may_own(session: str) -> bool:
    """Return True if a session may have this name: `.` and `..` are always folders."""
    return session not in ("", os.curdir, os.pardir)


def owners(store: Store, names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield the names that belong to a session in the folder of `store`, each with the name of that session."""
    # Computed once: it resolves every link of the path.
    home = _home(store.work.parent)
    shared = store.originals.name.startswith(home)
    for name in names:
        originals = originals_of(Path(name)).name if name.endswith(JOURNAL) else name
        if name.startswith(home) == shared and originals.endswith(_ZST):
            session = originals.removeprefix(home).removesuffix(_ZST)
            if may_own(session):
                yield name, session


def rows_of(database: Path) -> Path:
    """Return the folder of the stores of a database's sessions, independent of links to the database."""
    return (database := Path(os.path.realpath(database))).parent / FOLDER / database.name


def lines_of(row: Path) -> Path:
    """Return the path of the temporary file with the lines of a database session, next to its store."""
    return rows_of(row.parent) / f"{row.name}.jsonl"


def as_named(session: Path) -> Path:
    """Return a session's path as users name it: of the temporary file with a database session's lines, its row."""
    folder = session.parent
    return folder.parent.parent / folder.name / session.stem if folder.parent.name == FOLDER else session


def originals_of(journal: Path) -> Path:
    """Return the path of the originals of a journal."""
    if journal.name.endswith(HISTORY):
        return journal.with_name(f"{journal.name.removesuffix(HISTORY)}{ORIGINALS}")
    stem = journal.name.removesuffix(JOURNAL)
    if stem.endswith(_UNNAMED):
        return journal.with_name(f"{stem.removesuffix(_UNNAMED)}.zst")
    return journal.with_name(f"{stem}.zst" if stem.endswith(_ENDINGS) else f"{stem}.jsonl.zst")


def named_in(journal: Path) -> bytes:
    """Return the name of a journal's session. Signatures cover it, so they do not hold for another session."""
    name = originals_of(journal).name.removesuffix(ORIGINALS).removesuffix(_ZST)
    # A journal moved into a backup folder or out of it stays this user's; see _home().
    return os.fsencode(name[13:] if name[12:13] == "-" and not name[:12].strip("0123456789abcdef") else name)


def session_of(file: Path) -> Path:
    """Return the path of the session that a journal or an originals file belongs to."""
    if file.name.endswith((HISTORY, ORIGINALS)):
        return file.parents[2] / file.name.removesuffix(HISTORY).removesuffix(ORIGINALS)
    name = file.name if file.name.endswith(_ZST) else originals_of(file).name
    return file.parents[1] / name.removesuffix(_ZST)


def may_be_store(session: Path, names: Collection[str]) -> bool:
    """Return True if the paths can be the files of one store of a session."""
    folders = {above for name in names if is_local(above := Path(name).parent.name)}
    stores = [plain_in(session), *(hidden_in(session, each) for each in folders)]
    return any(set(names) <= {each.originals.as_posix(), each.journal.as_posix()} for each in stores)


def real_place(path: Path) -> Path:
    """Resolve the links of a path's folder, but not the path itself if it is a link."""
    return path.parent.resolve() / path.name


def status_of(path: Path) -> os.stat_result | None:
    """Return the status of a path without following a link, or None if it does not exist."""
    try:
        return path.lstat()
    except FileNotFoundError:
        return None


def size_of(path: Path) -> int | None:
    """Return a file's length in bytes, or None if it does not exist."""
    found = status_of(path)
    return None if found is None else found.st_size


def _home(folder: Path) -> str:
    """Return the prefix that separates the sessions of one folder from others in a backup folder."""
    from hashlib import sha256

    return sha256(os.fsencode(folder.resolve())).hexdigest()[:12] + "-"


def store_at(path: Path, policy: Policy) -> Store:
    """Find the store of a session, or name the one that a run would begin; see store_in(). Raises UsageError."""
    return store_in(path, backups_of(path, policy), shown=bool(policy.commit_originals))


def backups_of(path: Path, policy: Policy) -> Path | None:
    """Return the backup folder of a session; a relative `backupDir` starts at its folder. Raises UsageError."""
    if not policy.backup_dir:
        return None
    folder = path.parent / backup_folder(policy.backup_dir, path)
    # The system can't resolve `..` in a folder that no longer exists.
    return folder if path.parent.exists() else Path(os.path.normpath(folder))


def store_of(path: Path, policy: Policy) -> Store:
    """Return the store of a session, for a command that works on it.

    Raises Refused if the backup folder holds nothing of the session but the store next to it exists: with a second
    store, the originals in the first would seem lost.
    """
    store = store_at(path, policy)
    there = store_in_own_folder(path, policy)
    if there is None or holds(store):
        return store
    make = "" if store.folder.is_dir() else f"make the folder {store.folder}, and "
    remedy = (
        "Run without --backup-dir (where your configuration has backupDir, with a --config file of "
        "'{\"session\": {\"backupDir\": null}}'), also to 'restore' and 'forget' it first. "
        f"Or {make}move its two files: "
        f"{there.originals.name} to {store.originals}, and {there.journal.name} to {store.journal}."
    )
    what = f"its originals are in {there.folder}, not in the backup folder {backups_of(path, policy)}"
    raise Refused(what, where=path, remedy=remedy)


def store_in_own_folder(path: Path, policy: Policy) -> Store | None:
    """Return the store next to a session whose policy has a backup folder, or None."""
    if not policy.backup_dir:
        return None
    there = store_in(path)
    return there if holds(there) else None


def holds(store: Store) -> bool:
    """Return True if the originals or the journal exist.

    Raises FileFailed if this user may not look into the folder, and it is this user's: originals in it would seem lost.
    Other users' folders are closed where several users share a folder.
    """
    try:
        return status_of(store.originals) is not None or status_of(store.journal) is not None
    except PermissionError as error:
        for folder in (store.folder, store.folder.parent):
            with suppress(OSError):
                folder.lstat()
                if _is_closed(folder):
                    return False
                what = "permission denied: this user's folder, which may have the session's originals"
                raise FileFailed(what, where=folder, remedy="Let this user read it, and run again.") from error
        return False
    except OSError:
        return False


def backup_folder(named: str, where: Path) -> Path:
    """Expand the `~` of a policy's backup folder. Raises UsageError if there is no such home folder."""
    try:
        return Path(named).expanduser()
    except RuntimeError as error:
        what = f"the policy's backupDir is {named!r}, but there is no such home folder"
        raise UsageError(what, where=where, remedy="Name a folder that exists.") from error


_LEFT_OVER = re.compile(r"(.+)\.(?:late-[0-9a-f-]+|temp-[0-9a-f]{8})", re.DOTALL)
_MADE = re.compile(rb'(?:Sha256":|[\[,])"([0-9a-f]{64})"')
"""The SHA-256 of a line that a run wrote, in a journal record; also of other things, but of no original."""
_RUN = b'{"type":"run",'
_LEAST = 64
"""Minimum length of a line in bytes. Hardly any line of a session is shorter."""
LONGEST = 1 << 20
"""Maximum length of a journal's record in bytes: far more than we write."""
_TICK = 2_000_000_000
"""Nanoseconds. A file system may give two changes no further apart the same time."""


def last_line(journal: Path) -> bytes:
    """Return the last line, with its LF, or b"" if the file does not end with a complete line. Raises OSError."""
    fd = os.open(journal, READING)
    try:
        size = os.fstat(fd).st_size
        step = 1 << 12
        while True:
            data = os.pread(fd, step, max(size - step, 0))
            lines = data.splitlines(keepends=True)
            if len(lines) > 1 or step >= min(size, LONGEST):
                return lines[-1] if lines and lines[-1].endswith(b"\n") and step < LONGEST else b""
            step *= 16
    finally:
        os.close(fd)


def newest_run(journal: Path) -> Any:
    """Parse the last line of a journal, which is the record of the newest run. Raises OSError and ValueError."""
    import orjson

    return orjson.loads(last_line(journal))


def sessions_named(work: Path) -> frozenset[str]:
    """List the sessions with late links or drafts in a folder. Raises OSError."""
    return _told_by_name(work)[1]


def has_leftovers(session: Path) -> bool:
    """Return True if a run left late links or drafts of a session, to be recovered by the next. Raises OSError.

    Callers ask before they lock the session.
    """
    return session.name in sessions_named(session.parent / FOLDER)


def _told_by_name(folder: Path) -> tuple[tuple[str, ...], frozenset[str]]:
    """List the folders of hidden stores in a folder, and the sessions with late links or drafts there.

    A folder of thousands of stores is listed again only after its time of change differs. Raises OSError.
    """
    try:
        changed = folder.stat().st_mtime_ns
        is_settled = time.time_ns() - changed > _TICK
        return _listed(folder, changed) if is_settled else _listed.__wrapped__(folder, changed)
    except (FileNotFoundError, NotADirectoryError):
        return (), frozenset()


@lru_cache(maxsize=64)
def _listed(folder: Path, _changed: int) -> tuple[tuple[str, ...], frozenset[str]]:
    names = os.listdir(folder)
    # A cheap test first: hardly any name matches.
    likely = [name for name in names if ".late-" in name or ".temp-" in name]
    sessions = {found[1] for found in map(_LEFT_OVER.fullmatch, likely) if found}
    return tuple(sorted(filter(is_local, names))), frozenset(filter(may_own, sessions))


def is_archive(path: Path) -> bool:
    """Return True if a file has the name and place of a pack's archive."""
    folder = Path(os.path.realpath(path.parent))
    above = folder.parent.parent if is_local(folder.parent.name) else folder.parent
    return path.name.endswith(ARCHIVE) and (above.name, folder.name) == (FOLDER, PACKS)
