"""What the commands share before they work: their options, the policy for a session, and how an error ends them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec

import click

from sessioncompress import interrupt
from sessioncompress.errors import SessionCompressError
from sessioncompress.find import policy_files
from sessioncompress.printable import printable

if TYPE_CHECKING:
    from sessioncompress.policy import Policy

P = ParamSpec("P")


class _Existing(click.Path):
    """A path that is there; click looks at all of them before a command starts."""

    def fail(self, message: str, param: click.Parameter | None = None, ctx: click.Context | None = None) -> NoReturn:
        super().fail(f"{message} Nothing was done.", param, ctx)


PATHS = click.argument("paths", nargs=-1, required=True, type=_Existing(path_type=Path, exists=True, readable=False))
CONFIG = click.option(
    "--config",
    type=click.Path(path_type=Path, dir_okay=False, exists=True),
    help="Policy file; else the nearest compression.json beside or above the session.",
)
PRESET = click.option(
    "--preset", type=click.Choice(["balanced", "low-cost", "high-quality"]), help="Base policy; a file changes it."
)
BACKUP_DIR = click.option(
    "--backup-dir", type=click.Path(path_type=Path, file_okay=False), help="Folder for originals and journals."
)
THEIR_FOLDER = click.option(
    "--backup-dir",
    type=_Existing(path_type=Path, file_okay=False, exists=True),
    help="Folder where the originals and journals are.",
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document on stdout.")


def errors_end_it(command: Callable[P, None]) -> Callable[P, None]:
    """Print an error of ours and exit with its code; an interrupt exits with 130."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            with interrupt.raised():
                command(*args, **kwargs)
        except SessionCompressError as error:
            click.echo(str(error), err=True)
            sys.exit(error.exit_code)
        except KeyboardInterrupt:
            click.echo("Interrupted; every session is as it was or as it will be, none in between.", err=True)
            sys.exit(interrupt.EXIT_CODE)

    return run


def policy_for(path: Path, config: Path | None, preset: str | None, overrides: dict[str, Any]) -> Policy:
    """Return the policy for a session: file and preset, then what the command line says."""
    from sessioncompress.policy import preset_of, with_options

    base = preset_of(preset)
    for file, ours in [(config, True)] if config else policy_files(path):
        _warn_of(file)
        if ours:
            from sessioncompress.config import load

            base = load(file, base)
            break
    return with_options(base, overrides)


def _warn_of(file: Path) -> None:
    """Say once what of a policy file nothing heeds."""
    warned = click.get_current_context().meta.setdefault(__name__, set())
    if file in warned:
        return
    warned.add(file)
    from sessioncompress.config import misplaced

    if said := misplaced(file):
        click.echo(printable(f"warning: {file}: {said}"), err=True)
