"""`--engine dask`: the commands that give each session to a worker of a cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from sessioncompress.cli import options
from sessioncompress.cli.choosing import Chosen
from sessioncompress.cli.kinds import WholeNumber

_OPTIONS = options.all_of(
    click.option(
        "--engine",
        "of",
        type=click.Choice(["processes", "dask"]),
        default="processes",
        help="What to work on many sessions with; dask needs sessioncompress[cluster].",
    ),
    click.option(
        "--scheduler",
        metavar="ADDRESS",
        help="With --engine dask: the scheduler of a cluster, as in tcp://host:8786. Its workers must see the same "
        "files under the same paths.",
    ),
    click.option(
        "--workers",
        type=WholeNumber(1),
        metavar="N",
        help="With --engine dask: start a cluster of N workers on this machine for this command.",
    ),
)


def ENGINE(command: Callable[..., None]) -> Callable[..., None]:  # noqa: N802 - an option to its readers
    """Give a command that takes a Chosen the options of an engine."""

    @wraps(command)
    def with_engine(chosen: Chosen, of: str, scheduler: str | None, workers: int | None, **values: Any) -> None:
        if of == "dask":
            if scheduler is not None and workers is not None:
                raise click.UsageError("--workers starts its own cluster; it can't be combined with --scheduler")
            if chosen.jobs is not None:
                raise click.UsageError("--jobs can't be combined with --engine dask; use --workers")
            # Imported here: most runs work on this machine alone.
            from sessioncompress.operations import cluster

            # Workers have working folders of their own.
            paths = tuple(path.absolute() for path in chosen.paths)
            chosen = chosen._replace(paths=paths, engine=cluster.engine(scheduler, workers))
        elif scheduler is not None or workers is not None:
            raise click.UsageError("--scheduler and --workers need --engine dask")
        command(chosen, **values)

    return _OPTIONS(with_engine)
