"""Find the policy of a session.

From the weakest to the strongest: the preset, the user's own configuration, the file named with `--config` or else the
nearest `compression.json`, the options. The strongest file that names a preset decides which one, unless `--preset`
does. Anyone may have created the folder of a file found near a session, so that file may only choose how much is
compressed. `model.OnlyUser` marks the keys that it may not set.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from reprlib import repr as shortened
from typing import TYPE_CHECKING, Any, NamedTuple

from msgspec.structs import replace

from sessioncompress.errors import NONE_CHANGED, UsageError
from sessioncompress.policy.model import BALANCED, PRESETS, OnlyUser, Policy, with_options, wrong

if TYPE_CHECKING:
    from sessioncompress.policy.file import Key

FILE_NAME = "compression.json"
_ALSO_IN = ".GITCLAW"
_PROGRAM = "sessioncompress"
_CONFIGURATIONS = ("$XDG_CONFIG_HOME", "~/.config", "~/Library/Application Support")
"""The folders in which platformdirs searches on Linux and macOS; importing it takes longer than most runs."""

LARGEST = 256 * 1024
"""Bytes. A file with every key has two thousand."""
_FLAGS = os.O_RDONLY | sum(getattr(os, name, 0) for name in ("O_CLOEXEC", "O_NONBLOCK", "O_NOCTTY"))
"""Opening a pipe does not wait for its writer."""

Section = Mapping[str, Any]


class PolicyFile(NamedTuple):
    """A file that counts for a session; `near` is True if it was found near it, and not named by the user."""

    file: Path
    section: Section
    near: bool = False


class Setting(NamedTuple):
    """A key of a session's policy, by its dotted name, and its source: "default", "preset", "option" or "file"."""

    key: str
    value: Any
    by: str
    file: Path | None = None


def policy_for(session: Path | str, config: Path | str | None = None, preset: str | None = None) -> Policy:
    """Return the policy for one session; see Policies. Raises UsageError; ignored files become Python warnings."""
    named = None if config is None else Path(config)
    return Policies(named, preset, warn=lambda said: warnings.warn(said, stacklevel=3)).of(Path(session))


class Policies:
    """The policies of one command's sessions. Each file is read once, and warned about once.

    `options` are the options of the command line; None and False mean not given. A command that does not compress
    (`compresses`) ignores forbidden keys in a file near a session. A command that only reads or undoes runs uses no
    file near a session (`near`), so that no such file can block it. `quiet_seconds` applies if no file and no option
    sets it.
    """

    def __init__(
        self,
        config: Path | None = None,
        preset: str | None = None,
        options: Mapping[str, Any] | None = None,
        *,
        warn: Callable[[str], None],
        compresses: bool = True,
        near: bool = True,
        quiet_seconds: float = 0,
    ) -> None:
        self._config = config
        self._preset = preset
        self._options = options or {}
        self._warn = warn
        self._compresses = compresses
        self._near = near
        self._quiet_seconds = quiet_seconds
        self._policies: dict[Path, Policy] = {}
        self._found: dict[Path, Section | None] = {}

    def of(self, session: Path) -> Policy:
        """Return the policy for a session. Raises UsageError."""
        folder = _folder_of(session)
        if folder not in self._policies:
            self._policies[folder] = with_options(self._from(self._sources(folder)), self._options)
        return self._policies[folder]

    @cached_property
    def own(self) -> Policy:
        """The preset and the user's configuration, without the files near sessions. Raises UsageError."""
        return self._from(self._user)

    @cached_property
    def apart(self) -> Policy:
        """The policy of sessions in an object store, where no file near them counts. Raises UsageError."""
        sources = self._user if self._config is None else (*self._user, self._named)
        return with_options(self._from(sources), self._options)

    def settings(self, session: Path) -> list[Setting]:
        """Return a session's settings, the preset first, each with its source. Raises UsageError."""
        from sessioncompress.policy.file import KEYS, PRESET, SECTION, flat, to_mapping

        sources = self._sources(_folder_of(session))
        preset, file = self._base(sources)
        by = "option" if self._preset else "file" if file else "default"
        settings = [Setting(PRESET, preset, by, file)]
        values, of_preset, default = (flat(to_mapping(each)) for each in (self.of(session), PRESETS[preset], BALANCED))
        for key, value in values.items():
            may = [each for each in sources if not (each.near and KEYS[key.partition(".")[0]].only_user)]
            file = next((each.file for each in reversed(may) if _says(each.section, f"{SECTION}.{key}")), None)
            by = "file" if file else "preset" if of_preset[key] != default[key] else "default"
            settings.append(Setting(key, value, by, file))
        return settings

    def places(self, session: Path) -> list[tuple[Path, str]]:
        """Return the files that are searched for, weakest first, each with its status. Raises UsageError."""
        folder = _folder_of(session)
        counting = {each.file for each in self._sources(folder)}
        places = []
        for file in (user_file(), *([self._config] if self._config else _candidates(folder))):
            if file is not None:
                there = "counts" if file in counting else "passed over" if os.path.lexists(file) else "not there"
                places.append((file, there))
                if file in counting and file != user_file():
                    break
        return places

    def says(self, session: Path | None, key: str) -> bool:
        """True if a file that counts for a session sets this dotted key. None: a session in an object store."""
        from sessioncompress.policy.file import SECTION

        named = () if self._config is None else (self._named,)
        sources = (*self._user, *named) if session is None else self._sources(_folder_of(session))
        return any(_says(each.section, f"{SECTION}.{key}") for each in sources)

    @property
    def writable(self) -> Path | None:
        """The user's own file with the highest rank: `--config`, or the configuration; None if that is ignored.

        It need not exist. A file found near a session is never returned, whatever its owner. Raises UsageError.
        """
        if self._config is not None:
            return self._config
        file = user_file()
        return None if file is None or (os.path.lexists(file) and not self._user) else file

    @cached_property
    def _user(self) -> tuple[PolicyFile, ...]:
        file = user_file() if _may_have_configuration() else None
        section = self._trusted(file, forbidden=stat.S_IWGRP | stat.S_IWOTH, ours=True) if file else None
        return (PolicyFile(file, section),) if file and section is not None else ()

    @cached_property
    def _named(self) -> PolicyFile:
        assert self._config is not None
        try:
            status = os.stat(self._config)
        except OSError as error:
            raise wrong(f"the policy cannot be read: {error.strerror}", self._config) from error
        return PolicyFile(self._config, self._read(self._config, status, ours=True) or {})

    def _sources(self, folder: Path) -> tuple[PolicyFile, ...]:
        """Return the files that count in a folder, weakest first."""
        if self._config is not None:
            return (*self._user, self._named)
        for file in _candidates(folder) if self._near else ():
            if file not in self._found:
                self._found[file] = self._trusted(file)
            if (section := self._found[file]) is not None:
                return (*self._user, PolicyFile(file, section, near=True))
        return self._user

    def _base(self, sources: Iterable[PolicyFile]) -> tuple[str, Path | None]:
        """Return the preset, and the file that names it. Raises UsageError."""
        chosen, file = "balanced", None
        for each in sources:
            from sessioncompress.policy.file import preset_in

            if (name := preset_in(each.section, each.file)) is not None:
                chosen, file = name, each.file
        if self._preset is None:
            return chosen, file
        if self._preset not in PRESETS:
            what, remedy = f"there is no preset {shortened(self._preset)}", f"Presets are {', '.join(PRESETS)}."
            raise UsageError(what, state=NONE_CHANGED, remedy=remedy)
        return self._preset, None

    def _from(self, sources: Sequence[PolicyFile]) -> Policy:
        policy = PRESETS[self._base(sources)[0]]
        if self._quiet_seconds:
            policy = replace(policy, quiet_seconds=self._quiet_seconds)
        for each in sources:
            policy = self._applied(each, policy)
        return policy

    def _applied(self, source: PolicyFile, base: Policy) -> Policy:
        """Apply a file to the base. Raises UsageError if one near a session sets a key that only the user may set."""
        from sessioncompress.policy.file import from_mapping

        forbidden: dict[str, OnlyUser] = {}

        def counts(name: str, key: Key, value: Any) -> bool:
            if not source.near or key.only_user is None:
                return True
            options = [each.removeprefix("--").replace("-", "_") for each in key.only_user.option.split(" or ")]
            if (
                self._compresses
                and value != getattr(BALANCED, key.field)
                and all(self._options.get(option) in (None, False) for option in options)
                and not any(_says(each.section, name) for each in self._user)
            ):
                rule = key.only_user
                option = rule.words.get(value, rule.option) if isinstance(value, str) else rule.option
                forbidden[name] = rule._replace(option=option)
            return False

        policy = from_mapping(base, source.section, source.file, counts)
        if not forbidden:
            return policy
        this, them = ("this key", "it") if len(forbidden) == 1 else ("these keys", "them")
        told = " and ".join(f'"{name}" {key.harm}' for name, key in forbidden.items())
        options = " and ".join(f"{key.option}{key.to}" for key in forbidden.values())
        where = user_file() or "your own configuration"
        raise UsageError(
            f"the policy's {told}, which a file found near a session may not do",
            where=source.file,
            state=NONE_CHANGED,
            remedy=f"Remove {this} there. If you want {them}, give {options}, name a file with --config, or set {them} "
            f"in {where}.",
        )

    def _trusted(self, file: Path, *, forbidden: int = 0, ours: bool = False) -> Section | None:
        """Read the section of a regular file that belongs to the user or root; warn about other files.

        A file with `forbidden` permissions is ignored too. Raises UsageError.
        """
        try:
            # If another user owns it, nothing else is checked: not where it links to, nor if that can be read.
            paths = (file.parent, file) if file.parent.name == _ALSO_IN else (file,)
            anothers = next((path for path in paths if not _is_owned(os.lstat(path))), None)
            found = None if anothers else os.stat(file)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
                return None
            raise wrong(f"the policy cannot be read: {error.strerror}", file) from error
        if found and not stat.S_ISREG(found.st_mode):
            return None
        if found is None or not _is_owned(found):
            self._warn(f"{anothers or file}: it is ignored, since neither you nor root owns it")
            return None
        if found.st_mode & forbidden:
            self._warn(f"{file}: it is ignored, since other users can write to it: run 'chmod go-w' on it")
            return None
        return self._read(file, found, ours=ours)

    def _read(self, file: Path, status: os.stat_result, *, ours: bool = False) -> Section | None:
        """Read the section of a file (see section_in()); warn about keys outside it. Raises UsageError."""
        from sessioncompress.policy.file import section_in

        section, outside = section_in(_bytes_of(file, status), file, ours=ours)
        if outside:
            self._warn(f"{file}: {outside}")
        return section


def user_file() -> Path | None:
    """Return the path of the user's configuration, which need not exist; None if no home is known."""
    from platformdirs import user_config_path

    file = user_config_path(_PROGRAM) / "config.json"
    # A relative path would be resolved in the working folder, which may be anyone's.
    return file if file.is_absolute() else None


def _folder_of(session: Path) -> Path:
    # The folders that a path enters and leaves with `..` are not above the session.
    return Path(os.path.realpath(session.parent)) if ".." in session.parts else session.parent.absolute()


def _candidates(folder: Path) -> Iterator[Path]:
    """Yield the possible files of a policy near the sessions in a folder, nearest first."""
    for above in (folder, *folder.parents):
        yield above / FILE_NAME
        yield above / _ALSO_IN / FILE_NAME


def _may_have_configuration() -> bool:
    if sys.platform not in ("linux", "darwin"):
        return True
    homes = (os.path.expanduser(os.path.expandvars(home)) for home in _CONFIGURATIONS)  # noqa: PTH111 - raises nothing
    return any(os.path.lexists(os.path.join(home, _PROGRAM)) for home in homes)  # noqa: PTH118 - homes are texts


def _says(section: Any, name: str) -> bool:
    for part in name.split(".")[1:]:
        if not isinstance(section, Mapping) or part not in section:
            return False
        section = section[part]
    return True


def _is_owned(found: os.stat_result) -> bool:
    return sys.platform == "win32" or found.st_uid in (0, os.geteuid())


def _bytes_of(file: Path, status: os.stat_result) -> bytes:
    if not stat.S_ISREG(status.st_mode):
        raise wrong("the policy is not a regular file", file)
    try:
        with open(file, "rb", opener=lambda path, _: os.open(path, _FLAGS)) as opened:
            if not os.path.samestat(status, os.fstat(opened.fileno())):
                raise wrong("the policy was just replaced by another file", file)
            data = opened.read(LARGEST + 1)
    except OSError as error:
        raise wrong(f"the policy cannot be read: {error.strerror}", file) from error
    if len(data) > LARGEST:
        raise wrong(f"the policy is larger than {LARGEST // 1024} KB", file)
    return data
