"""Hostile input values for every entry point of the console."""

from __future__ import annotations

from typing import Any

#: Texts for JSON and, percent-encoded, for URLs and forms.
TEXTS: dict[str, str] = {
    "empty": "",
    "blank": " ",
    "NUL": "a\x00b",
    "control characters": "\x1b[2J\x07",
    "turned": "a\u202eb",
    "long": "x" * 3_900,
    "too long": "x" * 12_000,
    "folders": "../../etc/passwd",
    "dots": "..",
    "quotes": "'\"`;--",
    "digits": "9" * 5_000,
    "a number": "-1",
    "other digits": "\u0661\u0662",
    "year 1": "0001-01-01T00:00:00+23:59",
    "year 9999": "9999-12-31T23:59:59-23:59",
    "an object name": 'type=Queue,virtualhost="\\"",name="' + "\\\\" * 100 + '"',
    "an open quote": 'type=Queue,virtualhost="' + "\\" * 3_000,
    "formula": "=1+1",
    "markup": "<script>alert(1)</script>",
    "format": "%s%n{0}{{}}",
    "not a number": "nan",
    "infinite": "1e999",
    "pattern": "*.>.#.*",
}

#: Values of a field of a body.
VALUES: dict[str, Any] = {
    **TEXTS,
    "nothing": None,
    "true": True,
    "zero": 0,
    "negative": -1,
    "64 bits": (1 << 63) - 1,
    "65 bits": 1 << 64,
    "a fraction": 0.1,
    "tiny": 5e-324,
    "a list": [],
    "lists": [[[[[[[]]]]]]],
    "an object": {},
    "objects": {"a": {"b": [{"c": None}]}},
    "a list of all": [None, True, 0, -1.5, "", [], {}],
    "a list of texts": ["", "..", "type=Broker"],
    "half a character": "a\ud800b",
}

#: Whole bodies, as text.
BODIES: dict[str, bytes] = {
    "none": b"",
    "cut": b'{"a',
    "null": b"null",
    "a list": b"[]",
    "a text": b'"x"',
    "deep": b"[" * 100_000,
    "deep objects": b'{"a":' * 900 + b"1" + b"}" * 900,
    "many fields": b"{" + b",".join(b'"f%d":1' % number for number in range(20_000)) + b"}",
    "many values": b'{"a":[' + b"1," * 200_000 + b"1]}",
    "a long name": b'{"' + b"x" * 1_000_000 + b'":1}',
    "not UTF-8": b'{"a":"\xff"}',
    "numbers": b'{"a":NaN,"b":-Infinity,"c":1e999,"d":' + b"9" * 5_000 + b"}",
    "noise": bytes(range(256)),
}
