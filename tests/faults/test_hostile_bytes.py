"""Nothing lost at bad bytes: what a parser refuses is copied, what a writer would spell otherwise stays as it is spelled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from sessioncompress.policy.model import Policy
from tests.faults.checks import Played
from tests.faults.hostile import Case, around, cases, play, respelled
from tests.support import texts
from tests.support.build import PiSession, dice
from tests.support.runs import split

Twist = Callable[[bytes], bytes]
_SIGN = b"odd.txt"
_MEMBER = b'"isError":false'


def _odd(twist: Twist) -> Callable[[], PiSession]:
    """Make a session with a result that is worth replacing, in a line that is twisted."""

    def add(made: PiSession) -> None:
        text = "odd.txt @@ é\n" + texts.log_lines(dice("odd"), 60) + "\n@@ 🌊 a/b"
        made.step("read", {"path": "a"}, text)
        made.raw(twist(made.take_last()))

    return lambda: around(add)


def _swap(old: bytes, new: bytes) -> Twist:
    def twist(line: bytes) -> bytes:
        assert old in line
        return line.replace(old, new, 1)

    return twist


def _member(literal: bytes) -> Twist:
    return _swap(_MEMBER, b'"odd":' + literal + b"," + _MEMBER)


def _text(literal: bytes) -> Twist:
    return _swap(b"@@", literal)


def _is_copied(played: Played) -> None:
    assert all(old == new for old, new in played.lines_with(_SIGN))


def _keeps(literal: bytes) -> Callable[[Played], None]:
    """The line was rewritten, and the bytes beside what was replaced are the ones they were."""

    def asks(played: Played) -> None:
        for old, new in played.lines_with(_SIGN):
            assert literal in old
            assert len(new) < len(old) * 0.6
            assert literal in new

    return asks


def _blanks_stay(played: Played) -> None:
    changed = [new for old, new in zip(split(played.before), split(played.after), strict=True) if old != new]
    assert changed
    assert not any(b'":' in line for line in changed)


def _left_alone(name: str, twist: Twist) -> Case:
    return Case(name, _odd(twist), _is_copied)


def _spelled(name: str, literal: bytes) -> Case:
    return Case(name, _odd(_member(literal)), _keeps(b'"odd":' + literal + b","))


def _second_message(line: bytes) -> bytes:
    return line.replace(b'"message":{', b'"message":{"role":"user","content":"first"},"message":{', 1)


def _second_content(line: bytes) -> bytes:
    return line.replace(b'"content":', b'"content":"first","content":', 1)


def _content(line: bytes) -> bytes:
    """Return the content of a result with its key and the comma behind it."""
    return line[line.index(b'"content":') : line.index(_MEMBER)]


def _copied(line: bytes) -> bytes:
    """Put the content of a result under another key before it, where a naive search would find it first."""
    return line.replace(b'"role":', _content(line).replace(b'"content"', b'"copy"') + b'"role":', 1)


LEFT_ALONE = [
    _left_alone("a number beyond floats", _member(b"1e400")),
    _left_alone("an integer of 5000 digits", _member(b"7" * 5000)),
    _left_alone("not a number", _member(b"NaN")),
    _left_alone("minus infinity", _member(b"-Infinity")),
    _left_alone("half of an emoji", _text(b"\\ud83d")),
    _left_alone("a surrogate as bytes", _text(b"\xed\xa0\xbd")),
    _left_alone("not UTF-8", _text(b"\xff\xfe\xc3(")),
    _left_alone("a raw NUL in a text", _text(b"\0")),
    _left_alone("a raw tab in a text", _text(b"\t")),
    _left_alone("a raw escape in a text", _text(b"\x1b[31m")),
    _left_alone("an escape that is none", _text(b"\\x41")),
    *(_left_alone(f"values {deep} deep", _member(b"[" * deep + b"]" * deep)) for deep in (201, 250, 1000, 1100)),
    _left_alone("a content twice", lambda line: line.replace(_content(line), _content(line) * 2)),
    _left_alone("a byte order mark in the middle", lambda line: b"\xef\xbb\xbf" + line),
    _left_alone("words behind the object", lambda line: line[:-1] + b" and more\n"),
    _left_alone("two objects in a line", lambda line: line[:-1] + line),
    _left_alone("a list around the object", lambda line: b"[" + line[:-1] + b"]\n"),
    _left_alone("a line that ends in the middle", lambda line: line[:-2] + b"\n"),
    _left_alone("NUL bytes before a line", lambda line: b"\0" * 4096 + line),
]

SPELLED = [
    _spelled("minus zero", b"-0"),
    _spelled("minus zero as a float", b"-0.0"),
    _spelled("one as a float", b"1.0"),
    _spelled("the smallest float", b"5e-324"),
    _spelled("a float that vanishes", b"1e-400"),
    _spelled("a large exponent", b"[1E5,1e16,1e+21]"),
    _spelled("zeros behind the point", b"[1.50,3.0e0]"),
    _spelled("a small number in full", b"0.000009"),
    _spelled("a small number with an exponent", b"1e-7"),
    _spelled("the largest integers", b"[18446744073709551615,-9223372036854775808]"),
    _spelled("an integer of 65 bits", b"18446744073709551616"),
    _spelled("a negative integer of 65 bits", b"-9223372036854775809"),
    _spelled("an integer of 40 digits", b"7" * 40),
    _spelled("a float of 40 digits", b"0." + b"123456789" * 4),
    _spelled("a plain letter as an escape", b'"\\u0041"'),
    _spelled("an escaped slash", b'"a\\/b"'),
    _spelled("an accent as an escape", b'"\\u00e9"'),
    _spelled("a line separator as an escape", b'"\\u2028"'),
    _spelled("an escape in capitals", b'"\\u001F"'),
    _spelled("an emoji as two escapes", b'"\\ud83c\\udf0a"'),
    _spelled("NUL and DEL in a text", b'"\\u0000\x7f"'),
    _spelled("what other readers take for ends of lines", '"\u2028\u2029\u0085\x7f\\u000b\\u001c"'.encode()),
    _spelled("a lone return escaped", b'"\\r"'),
    _spelled("an empty key", b'{"":{"":1}}'),
    _spelled("keys in no order", b'{"b":1,"a":2,"10":3,"9":4,"__proto__":5}'),
    _spelled("values 150 deep", b"[" * 150 + b"]" * 150),
    _spelled("a value that looks like the lines around it", b'":[1,2,3],"'),
    _spelled("brackets and quotes in a text", b'"}],\\"text\\":\\"{["'),
    _spelled("a key twice in what is not replaced", b'{"a":1,"a":2}'),
    Case("a message twice, of which the last counts", _odd(_second_message), _keeps(b'"content":"first"},"message":{')),
    Case("a content twice, of which the last counts", _odd(_second_content), _keeps(b'"content":"first","content":[')),
    Case(
        "blanks between everything",
        _odd(_swap(b'{"type":"message",', b' {\t"type" : "message" , ')),
        _keeps(b'"type" : '),
    ),
    Case("a return before the end of a line", _odd(lambda line: line[:-1] + b"\r\n"), _keeps(b"\r\n")),
    Case("blanks before the end of a line", _odd(lambda line: line[:-1] + b" \t \n"), _keeps(b" \t \n")),
    Case("empty lines around a line", _odd(lambda line: b"\n\r\n   \n" + line + b"\n"), _keeps(b"")),
    Case("the same text twice in a line", _odd(_copied), _keeps(b'"isError":false')),
    Case("every line ended by a return", lambda: respelled(_plain(), lambda line: line[:-1] + b"\r\n")),
    Case(
        "every line with blanks",
        lambda: respelled(_plain(), lambda line: line.replace(b'":', b'" : ')),
        _blanks_stay,
    ),
    Case("every line with its accents escaped", lambda: respelled(_plain(), _escaped)),
    Case("a byte order mark before the first line", lambda: _marked(_plain())),
    Case("a session whose last line has no end", lambda: _unended(_plain())),
]


def _plain() -> PiSession:
    return _odd(lambda line: line)()


def _escaped(line: bytes) -> bytes:
    return line.replace(b"/", b"\\/").replace("é".encode(), b"\\u00e9").replace("🌊".encode(), b"\\ud83c\\udf0a")


def _marked(made: PiSession) -> PiSession:
    lines = iter([b"\xef\xbb\xbf"])
    return respelled(made, lambda line: next(lines, b"") + line)


def _unended(made: PiSession) -> PiSession:
    made.raw(made.take_last()[:-1])
    return made


@cases(LEFT_ALONE)
def test_a_line_that_no_parser_can_vouch_for_is_copied(tmp_path: Path, case: Case, policy: Policy) -> None:
    """Whatever its agent makes of it: it stays to the byte, and the lines around it are rewritten and come back."""
    play(case, policy, tmp_path)


@cases(SPELLED)
def test_a_spelling_stays_where_a_line_is_rewritten(tmp_path: Path, case: Case, policy: Policy) -> None:
    """Nothing is written as JSON anew: only the replaced text is another one."""
    play(case, policy, tmp_path)
