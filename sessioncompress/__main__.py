"""`python -m sessioncompress`, and the command `sessioncompress`."""

from __future__ import annotations

import gc
import sys

from sessioncompress.core import process

_RARELY = 100_000
"""New objects between two looks for circles of them, as Python makes them after 700."""


def run() -> None:
    """Run the command line; an interrupt before it has begun is no error to show, nor is it that nobody reads on."""
    # What a session is read into lives until the run ends, and next to nothing of it is in circles.
    gc.set_threshold(_RARELY)
    process.ends_it()
    process.outlive_their_readers()
    # Imported here because this takes most of the time that the program needs to start.
    from sessioncompress.cli import quick

    if quick.nothing_due(sys.argv[1:]):
        return
    from sessioncompress.cli.main import main

    main(prog_name="sessioncompress")


if __name__ == "__main__":
    run()
