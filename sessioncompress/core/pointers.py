"""Byte offsets into a session that its agent keeps in other files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Pointers:
    """The offsets into one session, which have to follow when its bytes change: none here. See Format.pointers()."""

    def wrong(self) -> str:
        """Say what does not point to where it should; empty where all does."""
        return ""

    def mend(self) -> None:
        """Let all point to where it should. Raises InUse where something of it is in use, Refused."""

    def refuse_if_loaded(self) -> None:
        """Raise InUse where the agent would go on with the session without reading it again."""

    @contextmanager
    def moving(self, fd: int) -> Iterator[None]:  # noqa: ARG002 - what follows looks where it has to point
        """Keep the agent out while the file open as `fd` may take the session's place, and let all follow.

        Raises as mend() and refuse_if_loaded().
        """
        yield

    def forget(self, is_rewritten: Callable[[bytes], bool]) -> None:
        """Take out what the agent keeps elsewhere of rewritten lines, as they were. Raises as moving()."""

    @contextmanager
    def leaving(self) -> Iterator[None]:
        """Keep the agent out while the session may leave its place. Raises as moving()."""
        yield
