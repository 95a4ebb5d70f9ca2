"""`compress` when nothing is due, without importing click: a hook after each turn mostly finds nothing to do.

Everything else, an option, a folder, an error, takes the usual way; nothing is printed before that is known.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from sessioncompress.core.text import file_line, files_line, printable
from sessioncompress.errors import SessionCompressError
from sessioncompress.pipeline.triage import SKIPPED, is_plainly_session, not_due
from sessioncompress.policy.sources import Policies


def nothing_due(arguments: Sequence[str]) -> bool:
    """Print what `compress` prints if nothing is due in any session; else print nothing and return False."""
    command, *names = arguments or ("",)
    if command != "compress" or not names or any(name.startswith("-") or not name for name in names):
        return False
    if sys.stdout is None:
        # It was closed by our parent, which click can handle.
        return False
    warnings: list[str] = []
    policies = Policies(warn=warnings.append)
    lines = []
    statuses: dict[str, int] = {}
    for path in dict.fromkeys(map(Path, names)):
        try:
            said = not_due(path, policies.of(path), force=False)
        except (SessionCompressError, OSError, ValueError):
            return False
        if said is None or warnings:
            return False
        status, reason = said
        if status == SKIPPED and not is_plainly_session(path):
            return False
        statuses[status] = statuses.get(status, 0) + 1
        lines.append(file_line(printable(str(path)), status, reason))
    sys.stdout.write("\n".join([*lines, files_line(len(lines), statuses), ""]))
    return True
