"""`python -m sessioncompress`."""

from __future__ import annotations

from sessioncompress.cli import main

if __name__ == "__main__":
    main(prog_name="sessioncompress")
