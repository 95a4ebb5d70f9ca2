"""Make text from outside safe to print: names, errors and tool output may hold escapes that a terminal obeys."""

from __future__ import annotations

_SMUGGLED_BYTE = range(0xDC80, 0xDD00)
"""What Python makes of the bytes of a file name that are not UTF-8."""
_ONE_BYTE = range(0x100)
_TWO_BYTES = range(0x10000)


def printable(text: str) -> str:
    r"""Return the text with every character that does not simply print escaped: \x1b, \u202e, \U000e0001.

    A byte of a file name that is not UTF-8 (a lone surrogate in Python) becomes that byte: \xff.
    """
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _SMUGGLED_BYTE:
        code %= len(_ONE_BYTE)
    if code in _ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code in _TWO_BYTES else f"\\U{code:08x}"
