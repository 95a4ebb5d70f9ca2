"""`python -m sessioncompress`, and the command `sessioncompress`."""

from __future__ import annotations

import sys

from sessioncompress import interrupt, streams


def run() -> None:
    """Run the command line; an interrupt before it has begun is no error to show, nor is it that nobody reads on."""
    interrupt.ends_it()
    streams.outlive_their_readers()
    # Imported here because this takes most of the time that the program needs to start.
    from sessioncompress import quick

    if quick.nothing_due(sys.argv[1:]):
        return
    from sessioncompress.cli import main

    main(prog_name="sessioncompress")


if __name__ == "__main__":
    run()
