"""Byte offsets into a session that its agent keeps in other files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path


class Pointers:
    """The offsets into one session, which must follow its bytes: none here. See Format.pointers()."""

    def wrong(self) -> str:
        """Describe what points to the wrong place; return "" if everything is right."""
        return ""

    def mend(self) -> None:
        """Correct all offsets. Raises Refused, or InUse if part of it is in use."""

    def refuse_if_loaded(self) -> None:
        """Raise InUse if the agent would continue the session without reading it again."""

    @contextmanager
    def moving(self, fd: int) -> Iterator[None]:  # noqa: ARG002 - subclasses compute the new offsets from it
        """Keep the agent out while the file open as `fd` may replace the session, then correct all offsets.

        Raises the errors of mend() and refuse_if_loaded().
        """
        yield

    def forget(self, lines: Iterable[bytes]) -> Sequence[Path]:  # noqa: ARG002 - subclasses search for them
        """Remove the agent's other copies of texts in these lines, in the state of any run.

        Return the databases that had some, and so may still have them in free bytes. Raises the errors of moving().
        """
        return ()

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Keep the agent out while the session may be moved away. Raises the errors of moving()."""
        yield
