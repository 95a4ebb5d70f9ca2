"""One cell of the race: a program appends to a session while our commands run over it again and again; prints how it went.

python -m tests.faults.live FOLDER WRITER LINES_A_SECOND LINES SEEN KILLED
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec.structs import replace

from sessioncompress.errors import InUse, Refused
from sessioncompress.operations.compact import compact_session
from sessioncompress.operations.compress import compress_session
from sessioncompress.operations.restore import restore_session
from sessioncompress.policy.model import Compact
from sessioncompress.store import lock, recover, swap
from sessioncompress.store.lock import OpenForWriting
from tests.faults.scenes import SIZES, built
from tests.support.runs import EAGER, write
from tests.unit.store.tools import in_a_child

WRITERS = {
    "path": """
import sys, time
path, rate, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
began = time.monotonic()
for number in range(count):
    with open(path, "ab", buffering=0) as file:
        file.write(b'{"type":"custom","customType":"late","data":%d}\\n' % number)
    time.sleep(max(0, began + (number + 1) / rate - time.monotonic()))
""",
    "descriptor": """
import sys, time
path, rate, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
began = time.monotonic()
with open(path, "ab", buffering=0) as file:
    for number in range(count):
        file.write(b'{"type":"custom","customType":"late","data":%d}\\n' % number)
        time.sleep(max(0, began + (number + 1) / rate - time.monotonic()))
""",
    "halves": """
import sys, time
path, rate, count = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
began = time.monotonic()
for number in range(count):
    for half in (b'{"type":"custom","custom', b'Type":"late","data":%d}\\n' % number):
        with open(path, "ab", buffering=0) as file:
            file.write(half)
    time.sleep(max(0, began + (number + 1) / rate - time.monotonic()))
""",
}
"""As pi appends, opening the file for each line; as Codex does, which keeps it open; and as a shell that writes twice."""

_LONGEST_LIFE = 0.12
_POLICY = replace(EAGER, compact=Compact(keep_tokens=500, min_dead_tokens=100, min_saved_tokens=1))


def main(folder: str, writer: str, rate: str, lines: str, seen: str, killed: str) -> None:
    """Race until the writer is done; then every line of its must be there, and the original before them."""
    if not int(seen):
        for module in (lock, recover):
            setattr(module, "held", lambda fd: OpenForWriting.UNKNOWN)  # noqa: B010, no type knows what a module may be given
    swap.HOLD_SECONDS = 0.02
    path = write(Path(folder), built(SIZES[0], 1))
    original = path.read_bytes()
    acts = (lambda: compact_session(path, _POLICY), lambda: compress_session(path, EAGER))
    counted = {"rounds": 0, "refused": 0, "killed": 0}
    with subprocess.Popen([sys.executable, "-c", WRITERS[writer], str(path), rate, lines]) as process:
        while process.poll() is None:
            for act in (*random.sample(acts, 2), lambda: restore_session(path)):
                counted[_killed(act) if int(killed) else _done(act)] += 1
    swap.LINK_SECONDS = -1
    for _ in range(3):
        restore_session(path)
    late = path.read_bytes().removeprefix(original).splitlines()
    numbers = [json.loads(line)["data"] for line in late]
    gone = set(range(int(lines))) - set(numbers)
    print(json.dumps({**counted, "gone": len(gone), "twice": len(numbers) - len(set(numbers))}))
    assert path.read_bytes().startswith(original)


def _done(act: Callable[[], object]) -> str:
    try:
        act()
    except (InUse, Refused):
        return "refused"
    return "rounds"


def _killed(act: Callable[[], object]) -> str:
    """Run in a child that has not long to live; return how it ended."""

    def work() -> None:
        signal.setitimer(signal.ITIMER_REAL, random.uniform(0.001, _LONGEST_LIFE))
        with suppress(InUse, Refused):
            act()

    signal.signal(signal.SIGALRM, lambda *_: os.kill(os.getpid(), signal.SIGKILL))
    return "killed" if in_a_child(work) == signal.SIGKILL else "rounds"


if __name__ == "__main__":
    main(*sys.argv[1:])
