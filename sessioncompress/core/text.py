"""Make text from outside safe to print: names, errors and tool output may hold escapes that a terminal obeys."""

from __future__ import annotations

from typing import Any

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


def printable_json(text: str) -> str:
    r"""Return JSON text with every character that does not simply print escaped as JSON does: \u202e, \udb40\udc01.

    It stands for the same document. Line breaks between its parts stay.
    """
    lines = text.split("\n")
    return "\n".join(line if line.isprintable() else "".join(map(_json_escaped, line)) for line in lines)


def utf8(text: str) -> str:
    """Return text that JSON can hold: a file name that is no UTF-8 is written with its bytes escaped."""
    return text.encode("utf-8", "backslashreplace").decode()


def json_safe(value: Any) -> Any:
    """Return a value of lists and objects with all strings in it as utf8() returns them."""
    if isinstance(value, dict):
        return {key: json_safe(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return list(map(json_safe, value))
    return utf8(value) if isinstance(value, str) else value


def _json_escaped(char: str) -> str:
    if char.isprintable():
        return char
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def _escaped(char: str) -> str:
    code = ord(char)
    if code in _SMUGGLED_BYTE:
        code %= len(_ONE_BYTE)
    if code in _ONE_BYTE:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code in _TWO_BYTES else f"\\U{code:08x}"
