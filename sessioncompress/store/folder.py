"""The folder next to a session: created with its first file, private, hidden from git, and removed when it is empty."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from sessioncompress.errors import IsALink, Refused, failing
from sessioncompress.store import disk
from sessioncompress.store.git import in_work_tree, known
from sessioncompress.store.layout import ENDINGS, FOLDER, Store, is_local
from sessioncompress.store.lock import open_file

_IGNORE = ".gitignore"
_ATTRIBUTES = ".gitattributes"
_NEW = ".gitignore.new"
"""The next .gitignore, or the first .gitattributes, while it is being written; a killed run may leave it."""
_OF_OURS = (_IGNORE, _ATTRIBUTES, _NEW)
_AS_THEY_ARE = b"# Of sessioncompress: git changes no byte of a store, and never merges two.\n* -text -ident -merge\n"
_SHOW_ATTRIBUTES = b"!/.gitattributes\n"
_ENDING = r"(?:(?<=\.zst)|(?<=\.refs\.jsonl))"
_SHOWN = rf"!/(?!(?:\.zst|\.refs\.jsonl)\n)(?:[^\n/\\*?\[]++|\\[\\*?\[])++{_ENDING}\n"
_OURS = re.compile(rf"\*\n(?:!/\.gitattributes\n)?(?:{_SHOWN})*".encode())
"""Hides everything except stores' files, each by its full name: a pattern in a name would show other files too.

The pattern never backtracks: each session of a run matches it against all lines.
"""
_SPECIAL = re.compile(rb"[\\*?\[]")
"""Characters that are special to git in a line that begins with "!/" and ends with a letter."""
_NOT_OURS = b"?"


def create_in_folder(path: Path, *, exclusive: bool, shown: Sequence[str] = ()) -> int:
    """Open one of our files to read and write, creating its folder if needed; return the descriptor.

    A folder in a git work tree gets a .gitignore that hides everything except the names in `shown`. Files that an
    earlier run showed to git stay visible, because the committed session needs them. A new file is hidden, even if a
    clone or a deleted store had made its name visible.
    """
    # Another run may remove the empty folder before the file is created.
    for _ in range(5):
        try:
            make_ours(path.parent, shown, () if os.path.lexists(path) else (path.name,))
            return disk.create(path, exclusive=exclusive)
        except FileNotFoundError as error:
            # A run on another session has just found the folder empty and removed it.
            missing = error
    raise missing


def make_ours(folder: Path, shown: Sequence[str] = (), created: Sequence[str] = ()) -> None:
    """Create our folder or a backup folder, and before a folder of hidden stores its parent; see create_in_folder()."""
    for each in (folder.parent, folder) if is_local(folder.name) else (folder,):
        if is_ours(each):
            # A link might lead anywhere.
            refuse_linked_folder(each)
        disk.make_folder(each)
        if is_ours(each) and not disk.is_private(each.stat()):
            # A clone or an archive brought the folder with a mode that lets other users in.
            with disk.closing(disk.open_folder(each)) as fd:
                disk.make_private(fd)
        if shown:
            _bring(each, _ATTRIBUTES, partial(_attributes_due, each))
        _bring(each, _IGNORE, partial(_ignore_due, each, shown, created))


def is_ours(folder: Path) -> bool:
    """True if the folder has one of our names; a backup folder does not."""
    return folder.name == FOLDER or is_local(folder.name)


def show_to_git(store: Store) -> None:
    """Show git a store that an earlier run hid, in case no later run writes to it.

    Raises FileFailed; Refused if no .gitignore can name it.
    """
    if store.folder.is_symlink() or not store.folder.is_dir():
        return
    with failing(store.folder, "What lies in it is complete, but git may not see it."):
        _bring(store.folder, _ATTRIBUTES, partial(_attributes_due, store.folder))
        if os.path.lexists(store.folder / _IGNORE):
            _bring(store.folder, _IGNORE, partial(_ignore_due, store.folder, names_of(store), ()))


def attributes_of(store: Store) -> Path:
    """Return the path of the .gitattributes in a store's folder, existing or not. It is committed with the store."""
    return store.folder / _ATTRIBUTES


def names_of(store: Store) -> tuple[str, str]:
    """Return the names of the files that git must see if a store's originals are committed."""
    return store.originals.name, store.journal.name


def hides_from_git(store: Store) -> bool:
    """True if our .gitignore hides files that show_to_git() would show. Raises FileFailed."""
    with failing(store.folder):
        present = None if store.folder.is_symlink() else _read(store.folder, _IGNORE)
        lines = None if present is None else _lines_in(present)
        shown = {_line(name) for name in names_of(store)}
        return lines is not None and not shown <= set(lines) and _is_for_us(store.folder)


def may_move(store: Store) -> bool:
    """True if git ignores a store and has it in no reachable commit, or if no work tree was found."""
    if not in_work_tree(store.folder):
        return True
    return hides_from_git(store) and not known(
        each for each in (store.originals, store.journal) if os.path.lexists(each)
    )


def refuse_linked_folder(folder: Path) -> None:
    """Raise IsALink if our folder is a link, which could lead anywhere, or is not a folder."""
    is_folder = True
    # If it can't be examined, the operation that follows reports the error.
    with suppress(OSError):
        is_folder = stat.S_ISDIR(os.lstat(folder).st_mode)
    if not is_folder:
        raise IsALink("this must be a folder of its own", where=folder, remedy="Move it away.")


def refuse_linked_store(store: Store) -> None:
    """Raise IsALink if a store's folder of our own is a link or no folder; Refused if one of its files is a folder."""
    for folder in (store.work, *filter(is_ours, (store.folder,))):
        refuse_linked_folder(folder)
    with failing(store.folder):
        for path in (store.originals, store.journal):
            _refuse_folder(path)


def refuse_linked(file: Path) -> None:
    """Raise Refused if one of our files is not a regular file; IsALink if it or its folder is a link, to anywhere."""
    for folder in filter(is_ours, (file.parent.parent, file.parent)):
        refuse_linked_folder(folder)
    if file.is_symlink():
        raise IsALink("it is a symbolic link", where=file, remedy="Move it away.")
    _refuse_folder(file)
    if file.exists() and not file.is_file():
        what = "there is a named pipe or the like here, where one of our files belongs"
        remedy = "Move it away, put the file back from a backup, and run again."
        raise Refused(what, where=file, remedy=remedy)


def _refuse_folder(file: Path) -> None:
    """Raise Refused if a folder has the name of one of our files: it may be anyone's, and no command deletes it."""
    if file.is_dir() and not file.is_symlink():
        what = "there is a folder here, where one of our files belongs"
        state = "The session and this folder were not changed."
        remedy = "See what is in it, move it away, and run again."
        raise Refused(what, where=file, state=state, remedy=remedy)


def refuse_other_names(file: Path, fd: int) -> None:
    """Raise IsALink if an open file of a store has other hard links, because writing to it would change those too."""
    if os.fstat(fd).st_nlink > 1:
        remedy = "Put a copy in its place: cp -p FILE COPY && mv COPY FILE."
        what = "it has other hard links, which a run would change too"
        raise IsALink(what, where=file, remedy=remedy)


def is_open_to_others(store: Store) -> bool:
    """True if the modes let other users read a store's originals or journal, as in a clone."""
    if is_ours(store.folder) and store.folder.is_dir() and disk.is_private(store.folder.stat()):
        return False
    found = (path.stat() for path in (store.originals, store.journal) if path.exists())
    return not all(map(disk.is_private, found))


def tidy_after(store: Store) -> None:
    """Remove the folders of a store if only our files for git are left in them; see tidy()."""
    if store.is_hidden:
        tidy(store.folder)
    tidy(store.work)


def tidy(folder: Path) -> None:
    """Remove our folder, after its folders of hidden stores, if they contain only our two files for git."""
    names = _other_names(folder)
    if names is not None and all(map(is_local, names)):
        for name in names:
            # The name may be anyone's, and another user's folder unreadable: neither is a failure of the command.
            with suppress(OSError, Refused):
                _tidy(folder / name)
        _tidy(folder)


def _tidy(folder: Path) -> None:
    if _other_names(folder) != []:
        return
    # Another run may remove the folder first.
    with suppress(FileNotFoundError), disk.locked(folder, needed=False):
        ignore = _read(folder, _IGNORE)
        is_ours = ignore is None or _lines_in(ignore) is not None
        is_tidy = is_ours and (_read(folder, _ATTRIBUTES) or _AS_THEY_ARE) == _AS_THEY_ARE
        if not is_tidy or _other_names(folder) != []:
            return
        for name in _OF_OURS:
            disk.remove(folder / name)
        if not disk.remove_folder(folder) and ignore is not None:
            _write(folder, _IGNORE, ignore)


def _other_names(folder: Path) -> list[str] | None:
    """List the names in a folder except our files for git, up to the first that is not a folder of hidden stores.

    Return None if the folder does not exist, or is a link, which could lead anywhere.
    """
    if folder.is_symlink():
        return None
    names: list[str] = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name not in _OF_OURS or entry.is_dir(follow_symlinks=False):
                    names.append(entry.name)
                    if not (is_local(entry.name) and entry.is_dir(follow_symlinks=False)):
                        # This is called after every session. One file of another session is enough to know.
                        break
    except FileNotFoundError:
        return None
    return names


def _bring(folder: Path, name: str, due: Callable[[], bytes | None]) -> None:
    """Write the text that is due. Ask again under the lock, because another run may have written it meanwhile."""
    if due() is not None:
        with disk.locked(folder, needed=False):
            if (text := due()) is not None:
                _write(folder, name, text)


def _attributes_due(folder: Path) -> bytes | None:
    """Return the .gitattributes to write, or None: git must not change a byte of a store that it sees, or merge any.

    In the file, the last lines win, so ours are appended. Earlier lines stay: a clone may have brought them, and they
    could make git change originals in other clones. If two branches continue the same store, git reports a conflict,
    and each file is one side's version.
    """
    present = _read(folder, _ATTRIBUTES) or b""
    if present.endswith(_AS_THEY_ARE) or not in_work_tree(folder) or not _is_for_us(folder):
        return None
    if present == _NOT_OURS:
        what = "this must be a file of its own, by which git changes no byte of a store"
        raise IsALink(what, where=folder / _ATTRIBUTES, remedy="Move it away.")
    return b"%b\n%b" % (present.removesuffix(b"\n"), _AS_THEY_ARE) if present else _AS_THEY_ARE


def _ignore_due(folder: Path, shown: Sequence[str], created: Sequence[str]) -> bytes | None:
    """Return the .gitignore to write, which shows `shown` and hides other `created` files, or None if none is due."""
    present = _read(folder, _IGNORE)
    lines = [] if present is None else _lines_in(present)
    hidden = {_line(name) for name in created if "\n" not in name}
    earlier = [line for line in lines or () if line not in hidden]
    showing = [*earlier, *map(_line, shown)] if lines is not None else []
    # The .gitignore hides itself too: committed, it would conflict on each merge, and git sees committed files anyway.
    # The .gitattributes never changes, so it is committed with the stores. The lines are nearly in order already, so
    # sorting them is fast.
    wanted = b"*\n" + (_SHOW_ATTRIBUTES if showing else b"")
    wanted += b"\n".join([*sorted(dict.fromkeys(showing)), b""])
    if present == wanted or not in_work_tree(folder):
        return None
    if lines is not None:
        return wanted if _is_for_us(folder) else None
    # A clone may have brought this .gitignore to expose files that must stay hidden, so replace it.
    if shown or not is_ours(folder):
        return None
    # Another run may be about to write it.
    with suppress(FileNotFoundError):
        if not stat.S_ISREG((folder / _IGNORE).lstat().st_mode):
            what = "this must be a file of its own, which hides the originals from git"
            raise IsALink(what, where=folder / _IGNORE, remedy="Move it away.")
    return wanted


def _lines_in(text: bytes) -> list[bytes] | None:
    """Return the lines of our .gitignore that show files of stores, or None if the file is not ours.

    A crash may leave an empty file, which counts as ours.
    """
    if text and not _OURS.fullmatch(text):
        return None
    return text.replace(_SHOW_ATTRIBUTES, b"", 1).split(b"\n")[1:-1]


def _line(name: str) -> bytes:
    """Return the line that shows a file to git. Raises Refused if no line can name it."""
    if "\n" in name:
        what = f"no .gitignore can let git see {name!r}, since the name contains a line break"
        remedy = "Rename the session, or run without --commit-originals (commitOriginals in your policy)."
        raise Refused(what, remedy=remedy)
    return b"!/%b" % _SPECIAL.sub(rb"\\\g<0>", os.fsencode(name))


def _is_for_us(folder: Path) -> bool:
    """True if our .gitignore would hide only our files: a backup folder may contain other files."""
    return is_ours(folder) or all(
        name in _OF_OURS or is_local(name) or name.endswith(ENDINGS) for name in os.listdir(folder)
    )


def _read(folder: Path, name: str) -> bytes | None:
    """Return the content of a file that may be ours; do not read a link, or a pipe without a writer."""
    try:
        fd = open_file(folder / name)
    except FileNotFoundError:
        return None
    except Refused:
        return _NOT_OURS
    with disk.closing(fd):
        size = os.fstat(fd).st_size
        # Our files are shorter than this.
        return os.read(fd, size) if size <= 4 << 20 else _NOT_OURS


def _write(folder: Path, name: str, text: bytes) -> None:
    """Replace a file atomically, so that git never sees what it hides."""
    _refuse_folder(folder / _NEW)
    disk.remove(folder / _NEW)
    with disk.closing(disk.create(folder / _NEW)) as fd:
        disk.write_all(fd, text)
    disk.system.replace(folder / _NEW, folder / name)
