"""The kinds of values that options and arguments take: paths, agents by any of their names, numbers with a unit."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import click

from sessioncompress.core.text import OBJECT_STORES, printable
from sessioncompress.errors import UsageError


class PathKind(click.Path):
    """A path that need not exist. An empty one, as of an unset shell variable, would name the working folder.

    Where it must exist and a session that was there is packed, the user is told so, or the command reads it there.
    """

    def __init__(self, takes_urls: bool = False, takes_packed: bool = False, **how: Any) -> None:  # noqa: FBT002
        super().__init__(**how)
        self.takes_urls, self.takes_packed = takes_urls, takes_packed

    def convert(
        self, value: str | os.PathLike[str], param: click.Parameter | None, ctx: click.Context | None
    ) -> str | bytes | os.PathLike[str]:
        """Return the path, or the URL of what lies in an object store."""
        if not os.fspath(value):
            self.fail("the path is empty; use '.' for the working folder.", param, ctx)
        if isinstance(value, str) and value.startswith(OBJECT_STORES):
            if self.takes_urls:
                return value
            commands = "compress, compact, history, pack, restore, search, stats, unpack and verify"
            self.fail(f"only {commands} take URLs of object stores.", param, ctx)
        path = Path(os.fsdecode(value))
        if not path.is_absolute():
            try:
                Path.cwd()
            except FileNotFoundError:
                what = f"the working folder, which '{path}' begins from, no longer exists."
                self.fail(f"{what} Change to another one, or name an absolute path.", param, ctx)
        if self.exists and not os.path.lexists(value):
            # Imported here: few paths lead nowhere.
            from sessioncompress.operations.packed import way_back

            if back := way_back(path):
                if self.takes_packed:
                    return self.coerce_path_result(str(path))
                self.fail(f"'{path}' does not exist. {back}", param, ctx)
        return super().convert(value, param, ctx)

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        """Say what is wrong with it, and that nothing was done."""
        super().fail(f"{message} Nothing was done.", param, ctx)


class Agent(click.types.StringParamType):
    """An agent, by any of its names; if only some are meant, `lacking` says what there is not for the others."""

    def __init__(self, among: Collection[str] = (), lacking: str = "") -> None:
        self._among, self._lacking = tuple(among), lacking

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return what we call the agent."""
        # Imported here: most runs need no table of formats.
        from sessioncompress.formats.table import NAMES, agent_named

        try:
            return agent_named(value, self._among or NAMES)
        except UsageError as error:
            said = str(error)
            with suppress(UsageError):
                other = agent_named(value)
                said = f"there is no {self._lacking} for {other}, only for {', '.join(self._among)}. Nothing was done."
            self.fail(said, param, ctx)


class WholeNumber(click.IntRange):
    """A whole number in a range; errors call it so."""

    name = "whole number"


class Number(click.FloatRange):
    """A number in a range; errors call it so."""

    name = "number"


def amount(
    units: Mapping[str, int], noun: str, example: str
) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Make a callback that converts a number with a unit, such as `7d`; `noun` says in errors what it is."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        found = re.fullmatch("([0-9]{1,9})([A-Za-z]*)", value)
        if found and found[2] in units:
            return int(found[1]) * units[found[2]]
        *others, last = units
        use = f"{', '.join(others)} or {last}, as in {example}"
        if found is None and re.match("[0-9]{10}", value):
            what = f" is too large; use at most nine digits and {use}"
        elif found is None:
            what = f" is not {noun}; use a number and {use}"
        elif found[2]:
            what = f": unknown unit '{found[2]}'; use {use}"
        else:
            what = f" needs a unit; use {use}"
        raise click.BadParameter(f"'{printable(value)}'{what}", ctx, param)

    return read


AGE = {"h": 3600, "d": 24 * 3600, "w": 7 * 24 * 3600}
"""The units of an age, in seconds."""
