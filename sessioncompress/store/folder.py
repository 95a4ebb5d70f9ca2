"""The folder beside a session: made when the first file in it is, private, kept out of git, removed when empty."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from sessioncompress.errors import NOT_CHANGED, IsALink, Refused, failing
from sessioncompress.git import in_work_tree
from sessioncompress.store import durable
from sessioncompress.store.beside import ENDINGS, FOLDER, Beside
from sessioncompress.store.lock import open_file

_TRIES = 5
_IGNORE = ".gitignore"
_IGNORE_ALL = b"*\n"
_IGNORE_PASSING = b"*.temp-*\n*.late-*\n"
_SHOWING = (_IGNORE_PASSING, b"*.temp-*\n*.late-*\n*.missing\n")
_OURS = (_IGNORE_ALL, *_SHOWING, b"")
"""What we write there, or earlier versions did, and what a crash in between leaves."""
_NOT_OURS = b"?"
_LONGEST_IGNORE = max(map(len, _OURS)) + 1


def create_in_folder(path: Path, *, exclusive: bool, commit_originals: bool) -> int:
    """Open a file of ours to read and write, its folder made first if need be; return the descriptor.

    A folder in a git work tree gets a .gitignore: of everything, or of what passes if originals are to be committed.
    What an earlier run let git see is not hidden from it again: the session that is in git needs it.
    """
    for _ in range(_TRIES):
        try:
            _prepare(path.parent, commit_originals=commit_originals)
            return durable.create(path) if exclusive else durable.create_or_open(path)
        except FileNotFoundError as error:
            # Another of us, at work on another session, has just found the folder empty and removed it.
            missing = error
    raise missing


def show_to_git(folder: Path) -> None:
    """Let git see what an earlier run hid from it, where no run may come that writes there. Raises FileFailed."""
    if folder.is_symlink():
        return
    with failing(folder, "What lies in it is complete, but git may not see it."):
        if _read_ignore(folder) in (_IGNORE_ALL, b"") and _is_for_us(folder):
            _write_anew(folder, _IGNORE_PASSING)


def hides_from_git(folder: Path) -> bool:
    """Tell whether a .gitignore of ours hides from git what show_to_git() would let it see. Raises FileFailed."""
    with failing(folder):
        return not folder.is_symlink() and _read_ignore(folder) == _IGNORE_ALL and _is_for_us(folder)


def refuse_linked_folder(folder: Path) -> None:
    """Raise IsALink if our folder is a link, which might lead what we write anywhere, or no folder at all."""
    if os.path.lexists(folder) and (folder.is_symlink() or not folder.is_dir()):
        raise IsALink("this must be a folder of its own", where=folder, state=NOT_CHANGED, remedy="Move it away.")


def refuse_linked(file: Path) -> None:
    """Raise Refused if a file beside a session is a folder, or it or our folder a link, which might lead anywhere."""
    if file.parent.name == FOLDER:
        refuse_linked_folder(file.parent)
    if file.is_symlink():
        raise IsALink("it is a symbolic link", where=file, state=NOT_CHANGED, remedy="Move it away.")
    refuse_folder(file)


def refuse_folders(files: Beside) -> None:
    """Raise Refused if a folder lies in the place of originals or journal. FileFailed where that is not to be known."""
    with failing(files.folder):
        for path in (files.originals, files.journal):
            refuse_folder(path)


def refuse_folder(file: Path) -> None:
    """Raise Refused if a folder lies in the place of a file of ours: it may be anybody's, and no command deletes it."""
    if file.is_dir() and not file.is_symlink():
        raise Refused(
            "a folder lies here, where a file of ours belongs",
            where=file,
            state="The session, and what is in this folder, are not changed.",
            remedy="Look what is in it, move it away, and run again.",
        )


def refuse_other_names(file: Path, fd: int) -> None:
    """Raise IsALink if an open file of a store has other hard links: what is written to it would change those too."""
    if os.fstat(fd).st_nlink > 1:
        raise IsALink(
            "it has other hard links, which a run would change too",
            where=file,
            state=NOT_CHANGED,
            remedy="Put a copy in its place: cp -p FILE COPY && mv COPY FILE.",
        )


def is_open_to_others(files: Beside) -> bool:
    """Tell whether the modes of a store let other users read originals, or the journal, as those of a clone do."""
    if files.folder.name == FOLDER and files.folder.is_dir() and durable.is_private(files.folder.stat()):
        return False
    found = (path.stat() for path in (files.originals, files.journal) if path.exists())
    return not all(map(durable.is_private, found))


def tidy(folder: Path) -> None:
    """Remove our folder if nothing but our own .gitignore is left in it."""
    try:
        names = [path.name for path in folder.iterdir()]
    except FileNotFoundError:
        return
    ignore = _read_ignore(folder) if names == [_IGNORE] else None
    if names and ignore not in _OURS:
        return
    durable.remove(folder / _IGNORE)
    if not durable.remove_folder(folder) and ignore is not None:
        _write_ignore(folder, ignore)


def _prepare(folder: Path, *, commit_originals: bool) -> None:
    ours = folder.name == FOLDER
    if ours:
        refuse_linked_folder(folder)
    durable.make_folder(folder)
    if ours and not durable.is_private(folder.stat()):
        _make_private(folder)
    wanted = _IGNORE_PASSING if commit_originals else _IGNORE_ALL
    present = _read_ignore(folder)
    if present == wanted or (present in _SHOWING and not commit_originals) or not in_work_tree(folder):
        return
    if present is None and (ours or not any(folder.iterdir())):
        _write_ignore(folder, wanted)
    elif present in _OURS and _is_for_us(folder):
        _write_anew(folder, wanted)
    elif present is not None and ours and not commit_originals:
        # A clone may have brought it, so that git sees what is to be hidden.
        _refuse_no_file(folder / _IGNORE)
        _write_anew(folder, wanted)


def _refuse_no_file(ignore: Path) -> None:
    """Raise IsALink for a .gitignore that is a link, which git does not follow, or otherwise no file."""
    try:
        mode = ignore.lstat().st_mode
    except FileNotFoundError:
        # Another of us is about to write it.
        return
    if not stat.S_ISREG(mode):
        what = "this must be a file of its own, which hides the originals from git"
        raise IsALink(what, where=ignore, state=NOT_CHANGED, remedy="Move it away.")


def _make_private(folder: Path) -> None:
    """Close a folder that a clone or an archive brought with a mode that lets others in."""
    fd = durable.open_folder(folder)
    try:
        durable.make_private(fd)
    finally:
        os.close(fd)


def _is_for_us(folder: Path) -> bool:
    """Tell whether nothing but ours is hidden there: a backup folder may be one in which other files lie."""
    return folder.name == FOLDER or all(name == _IGNORE or name.endswith(ENDINGS) for name in os.listdir(folder))


def _read_ignore(folder: Path) -> bytes | None:
    """Return enough of the file to know ours; what is a link, or a pipe that nobody writes to, is not read."""
    try:
        fd = open_file(folder / _IGNORE)
    except FileNotFoundError:
        return None
    except Refused:
        return _NOT_OURS
    try:
        return os.read(fd, _LONGEST_IGNORE)
    finally:
        os.close(fd)


def _write_anew(folder: Path, text: bytes) -> None:
    durable.remove(folder / _IGNORE)
    _write_ignore(folder, text)


def _write_ignore(folder: Path, text: bytes) -> None:
    try:
        fd = durable.create(folder / _IGNORE)
    except FileExistsError:
        return
    try:
        durable.write_all(fd, text)
    finally:
        os.close(fd)
