"""Splicing: the value at a path is replaced or taken out, and every other byte of the line stays."""

from __future__ import annotations

import time
from typing import Any

import orjson
import pytest

from sessioncompress.core.splice import REMOVED, Added, CannotSplice, literal, splice

P = tuple[str | int, ...]

LEFT_ALONE: list[tuple[str, bytes, dict[P, Any]]] = [
    ("the key appears twice with one value", b'{"a":"same","a":"same"}', {("a",): "x"}),
    ("the key appears twice, once escaped", b'{"a":"first","\\u0061":"second"}', {("a",): "x"}),
    ("taking out one of two equal keys", b'{"a":1,"a":2}', {("a",): REMOVED}),
    ("no such key", b'{"a":1}', {("b",): 2}),
    ("no such key inside", b'{"a":{}}', {("a", "b"): 2}),
    ("no such index", b'{"a":[1,2]}', {("a", 2): 3}),
    ("the path leads through a text", b'{"a":"text"}', {("a", "b"): 3}),
    ("the path leads through a text of another JSON", b'{"a":"[1]"}', {("a", "b"): 3}),
    ("a key that appears twice in a text's JSON", b'{"a":"{\\"b\\":1,\\"b\\":1}"}', {("a", "b"): 3}),
    ("the path leads through a number", b'{"a":5}', {("a", "b"): 3}),
    ("the path leads through null", b'{"a":null}', {("a", "b"): 3}),
    ("a value that is no JSON", b'{"a":1}', {("a",): object()}),
    ("a text that is no UTF-8", b'{"a":1}', {("a",): "\ud83d"}),
    ("a value inside another that goes", b'{"a":{"b":1}}', {("a",): REMOVED, ("a", "b"): 2}),
    ("a member to add that is there", b'{"a":1}', {("a",): Added(2)}),
    ("a member to add that is there twice, once escaped", b'{"a":1,"\\u0061":2}', {("a",): Added(2)}),
    ("a member to add behind a key that appears twice", b'{"a":1,"a":2}', {("b",): Added(2)}),
    ("an element to add to a list", b'{"a":[1]}', {("a", 1): Added(2)}),
    ("a member to add to a list", b'{"a":[1]}', {("a", "b"): Added(2)}),
    ("a member to add to a text", b'{"a":"x"}', {("a", "b"): Added(2)}),
    ("a member to add to an object that is not there", b'{"a":1}', {("b", "c"): Added(2)}),
    ("a member to add, and another that is not there", b'{"a":1}', {("b",): Added(2), ("c",): 3}),
    ("a member to add to an object that goes", b'{"a":{"b":1}}', {("a",): REMOVED, ("a", "c"): Added(2)}),
]

CHANGED: list[tuple[str, bytes, dict[P, Any], bytes]] = [
    ("a text", b'{"a":"old"}', {("a",): "new"}, b'{"a":"new"}'),
    (
        "a text inside a text's JSON, whose spaces and numbers stay",
        rb'{"a":"{ \"n\": 1E5,\"t\":\"o\\nld\" }","b":1}',
        {("a", "t"): 'n\n"ew"'},
        rb'{"a":"{ \"n\": 1E5,\"t\":\"n\\n\\\"ew\\\"\" }","b":1}',
    ),
    (
        "several inside a text's list, and one beside it",
        rb'{"a":"[\"x\",{\"y\":\"z\"}]","b":1}',
        {("a", 0): "v", ("b",): 2, ("a", 1, "y"): "w"},
        rb'{"a":"[\"v\",{\"y\":\"w\"}]","b":2}',
    ),
    ("spaces outside stay", b' { "a" :\t"old" , "b" : 1 } \r\n', {("a",): "new"}, b' { "a" :\t"new" , "b" : 1 } \r\n'),
    ("escapes outside stay", b'{"p":"\\/\\u00e9\\u0041","a":"old"}', {("a",): 1}, b'{"p":"\\/\\u00e9\\u0041","a":1}'),
    (
        "numbers outside stay as they are written",
        b'{"n":[0.000009,1E5,1.50,-0,3.0e0,18446744073709551616,-9223372036854775809],"a":"old"}',
        {("a",): "n"},
        b'{"n":[0.000009,1E5,1.50,-0,3.0e0,18446744073709551616,-9223372036854775809],"a":"n"}',
    ),
    ("a number between others", b'{"x":1e2,"a":1.0,"y":1E2}', {("a",): 2}, b'{"x":1e2,"a":2,"y":1E2}'),
    ("the old value was written with escapes", b'{"a":"\\u006f\\/"}', {("a",): "new"}, b'{"a":"new"}'),
    ("the key is written with escapes", b'{"\\u0061":"old"}', {("a",): "new"}, b'{"\\u0061":"new"}'),
    ("a key with a quote and a backslash", b'{"\\"\\\\":1}', {('"\\',): 2}, b'{"\\"\\\\":2}'),
    ("an empty key", b'{"":1,"a":2}', {("",): 3}, b'{"":3,"a":2}'),
    ("a key of digits", b'{"0":[1],"1":2}', {("1",): 3}, b'{"0":[1],"1":3}'),
    (
        "only the copy that the path names",
        b'{"d":{"a":"x"},"a":"x","e":"x"}',
        {("a",): 1},
        b'{"d":{"a":"x"},"a":1,"e":"x"}',
    ),
    ("the second of two equal elements", b'["x","x","x"]', {(1,): 0}, b'["x",0,"x"]'),
    (
        "a text that looks like JSON before it",
        b'{"t":"\\"a\\":\\"old\\"}","a":"old"}',
        {("a",): 0},
        b'{"t":"\\"a\\":\\"old\\"}","a":0}',
    ),
    ("brackets in texts", b'{"t":["]}",{"k":"[{"}],"a":"old"}', {("a",): 0}, b'{"t":["]}",{"k":"[{"}],"a":0}'),
    ("a backslash at a text's end", b'{"t":"\\\\","a":"old"}', {("a",): 0}, b'{"t":"\\\\","a":0}'),
    (
        "several values",
        b'{"a":1,"b":[2,{"c":3}],"d":4}',
        {("d",): "d", ("b", 1, "c"): "c"},
        b'{"a":1,"b":[2,{"c":"c"}],"d":"d"}',
    ),
    ("several named against their order", b'{"a":1,"b":2,"c":3}', {("c",): 4, ("a",): 5}, b'{"a":5,"b":2,"c":4}'),
    (
        "control characters and scripts",
        b'{"a":1}',
        {("a",): "\x00\u2028\U0001f30a"},
        b'{"a":"\\u0000\xe2\x80\xa8\xf0\x9f\x8c\x8a"}',
    ),
    ("a key twice behind the value", b'{"a":"old","x":1,"x":2}', {("a",): "new"}, b'{"a":"new","x":1,"x":2}'),
    (
        "the key appears twice: the last one counts",
        b'{"a":"first","a":"second"}',
        {("a",): "x"},
        b'{"a":"first","a":"x"}',
    ),
    ("an object on the way appears twice", b'{"m":{"a":1},"m":{"a":2}}', {("m", "a"): 3}, b'{"m":{"a":1},"m":{"a":3}}'),
    (
        "a key twice before the value",
        b'{"x":1,"x":{"y":[2]},"a":"text"}',
        {("a",): "x"},
        b'{"x":1,"x":{"y":[2]},"a":"x"}',
    ),
    (
        "key and value stand elsewhere too",
        b'{"d":{"a":"x"},"a":"x"}',
        {("d", "a"): 1, ("a",): 2},
        b'{"d":{"a":1},"a":2}',
    ),
    (
        "key and value stand alone elsewhere",
        b'{"d":{"\\u0061":"x"},"e":{"a":"x"}}',
        {("d", "a"): 1},
        b'{"d":{"\\u0061":1},"e":{"a":"x"}}',
    ),
    (
        "an element whose bytes stand elsewhere alone",
        b'{"n":[1, 2],"m":"[1,2]"}',
        {("n", 1): 3},
        b'{"n":[1, 3],"m":"[1,2]"}',
    ),
    ("an element whose bytes are part of another", b'[12,"2"]', {(1,): "3"}, b'[12,"3"]'),
    (
        "a long text that begins like another",
        b'{"a":"' + b"y" * 99 + b'1","b":"' + b"y" * 99 + b'2"}',
        {("b",): 0},
        b'{"a":"' + b"y" * 99 + b'1","b":0}',
    ),
    ("the first member goes", b'{"a":1,"b":2,"c":3}', {("a",): REMOVED}, b'{"b":2,"c":3}'),
    ("a middle member goes", b'{"a":1,"b":2,"c":3}', {("b",): REMOVED}, b'{"a":1,"c":3}'),
    ("the last member goes", b'{"a":1,"b":2,"c":3}', {("c",): REMOVED}, b'{"a":1,"b":2}'),
    ("the only member goes", b'{"a":1}', {("a",): REMOVED}, b"{}"),
    ("two neighbours go", b'{"a":1,"b":2,"c":3}', {("a",): REMOVED, ("b",): REMOVED}, b'{"c":3}'),
    ("the last two go", b'{"a":1,"b":2,"c":3}', {("b",): REMOVED, ("c",): REMOVED}, b'{"a":1}'),
    ("first and last go", b'{"a":1,"b":2,"c":3}', {("a",): REMOVED, ("c",): REMOVED}, b'{"b":2}'),
    ("all go", b'{"a":1,"b":2}', {("a",): REMOVED, ("b",): REMOVED}, b"{}"),
    ("with spaces around", b'{ "a" : 1 , "b" : 2 }', {("a",): REMOVED}, b'{ "b" : 2 }'),
    ("with spaces around, the last", b'{ "a" : 1 , "b" : 2 }', {("b",): REMOVED}, b'{ "a" : 1 }'),
    ("elements go", b"[0,1,2,3]", {(0,): REMOVED, (2,): REMOVED}, b"[1,3]"),
    ("elements before a changed one go", b'[0,1,"old",3]', {(0,): REMOVED, (1,): REMOVED, (2,): "new"}, b'["new",3]'),
    (
        "an element goes, its neighbour changes inside",
        b'[{"x":1},{"a":"old"}]',
        {(0,): REMOVED, (1, "a"): 0},
        b'[{"a":0}]',
    ),
    (
        "ten elements and more",
        b"[0,1,2,3,4,5,6,7,8,9,10,11]",
        {(2,): REMOVED, (10,): REMOVED},
        b"[0,1,3,4,5,6,7,8,9,11]",
    ),
    ("an object that holds another of its name", b'{"a":{"a":{"a":1}}}', {("a", "a", "a"): 2}, b'{"a":{"a":{"a":2}}}'),
    ("a member is added", b'{"a":1}', {("b",): Added("x")}, b'{"a":1,"b":"x"}'),
    ("to an object that is empty", b'{"a":{}}', {("a", "b"): Added(True)}, b'{"a":{"b":true}}'),
    ("to an object that holds white space", b'{"a":{ \n }}', {("a", "b"): Added(1)}, b'{"a":{"b":1 \n }}'),
    (
        "two to an object that another has behind it",
        b'{"a":{"b":1},"c":{"b":1}}',
        {("a", "x"): Added(2), ("a", "y"): Added([3])},
        b'{"a":{"b":1,"x":2,"y":[3]},"c":{"b":1}}',
    ),
    (
        "in a document that is written over several lines",
        b'{\n  "a": {\n    "b": 1E5\n  },\n  "c": []\n}\n',
        {("a", "x"): Added(2), ("c",): "d"},
        b'{\n  "a": {\n    "b": 1E5,"x":2\n  },\n  "c": "d"\n}\n',
    ),
    ("beside a member that changes", b'{"a":"old"}', {("a",): "new", ("b",): Added(2)}, b'{"a":"new","b":2}'),
    ("beside the last member, which goes", b'{"a":1,"b":2}', {("b",): REMOVED, ("c",): Added(3)}, b'{"a":1,"c":3}'),
    ("where all members go", b'{"a":1,"b":2}', {("a",): REMOVED, ("b",): REMOVED, ("c",): Added(3)}, b'{"c":3}'),
    (
        "behind a member that changes inside",
        b'{"a":{"b":"old"}}',
        {("a", "b"): "new", ("c",): Added(3)},
        b'{"a":{"b":"new"},"c":3}',
    ),
    ("under a key with a quote", b'{"a":1}', {('"',): Added(2)}, b'{"a":1,"\\"":2}'),
    (
        "inside a text's JSON",
        rb'{"a":"{ \"n\": 1E5 }"}',
        {("a", "t"): Added("x")},
        rb'{"a":"{ \"n\": 1E5,\"t\":\"x\" }"}',
    ),
    (
        "a value deeper than can be written",
        b'{"d":' + b"[" * 600 + b"]" * 600 + b',"a":"old"}',
        {("a",): 0},
        b'{"d":' + b"[" * 600 + b"]" * 600 + b',"a":0}',
    ),
]


@pytest.mark.parametrize(("raw", "values"), [case[1:] for case in LEFT_ALONE], ids=[case[0] for case in LEFT_ALONE])
def test_a_line_that_cannot_be_spliced_is_said_to_be_so(raw: bytes, values: dict[P, Any]) -> None:
    """Whatever is wrong, the one error says that the line must be left alone."""
    with pytest.raises(CannotSplice):
        splice(raw, orjson.loads(raw), values)


@pytest.mark.parametrize(
    ("raw", "values", "expected"), [case[1:] for case in CHANGED], ids=[case[0] for case in CHANGED]
)
def test_only_the_value_changes(raw: bytes, values: dict[P, Any], expected: bytes) -> None:
    """Every byte outside the named values is the original one, and the parsed line comes with it."""
    new, document = splice(raw, orjson.loads(raw), values)
    assert new == expected
    assert document == orjson.loads(expected)


@pytest.mark.parametrize("new", ["new", REMOVED], ids=["changed", "removed"])
def test_many_values_take_no_longer_each(new: Any) -> None:
    """A line of 6,000 texts that begin alike is not searched through 6,000 times."""
    edits = [{"old": "the same beginning " * 9 + str(number), "n": number} for number in range(6000)]
    begun = time.process_time()
    spliced, document = splice(orjson.dumps(edits), edits, {(number, "old"): new for number in range(6000)})
    assert time.process_time() - begun < 2
    assert document == [{"n": n} if new is REMOVED else {"old": new, "n": n} for n in range(6000)]
    assert spliced == orjson.dumps(document)


def test_a_literal_is_as_javascript_writes_it() -> None:
    """Neither slashes nor other scripts are escaped."""
    assert literal("a/é\u2028\n") == '"a/é\u2028\\n"'.encode()
