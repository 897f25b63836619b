"""Selectors of JMS: conditions on a message's properties, a part of SQL-92 (Jakarta Messaging 3.1, section 3.8).

Parsed once into closures that a message is put to. True, false or, where a property is missing, unknown (None): only
what is true selects. Nothing here knows messages: a closure is given a function from a property's name to its value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from lark import Lark, Token, Transformer, v_args
from lark.exceptions import UnexpectedInput, UnexpectedToken

from brokers.amqp.like import InvalidPattern, like

#: Maximum length of a selector in characters, and maximum depth of its conditions.
MAX_LENGTH, MAX_DEPTH = 4096, 100

Properties = Callable[[str], Any]
Condition = Callable[[Properties], Any]

_GRAMMAR = r"""
?start: any
?any: all (_OR all)*
?all: not (_AND not)*
?not: _NOT not -> negation
    | comparison
?comparison: sum
    | sum COMPARE sum -> compare
    | sum _BETWEEN sum _AND sum -> between
    | sum _NOT _BETWEEN sum _AND sum -> not_between
    | sum _IN "(" STRING ("," STRING)* ")" -> within
    | sum _NOT _IN "(" STRING ("," STRING)* ")" -> not_within
    | sum _LIKE STRING (_ESCAPE STRING)? -> like
    | sum _NOT _LIKE STRING (_ESCAPE STRING)? -> not_like
    | sum _IS _NULL -> is_null
    | sum _IS _NOT _NULL -> is_not_null
?sum: product
    | sum PLUS_MINUS product -> arithmetic
?product: sign
    | product TIMES_BY sign -> arithmetic
?sign: PLUS_MINUS sign -> signed
    | atom
?atom: STRING -> string
    | FLOAT -> approximate
    | INTEGER -> exact
    | _TRUE -> true
    | _FALSE -> false
    | NAME -> name
    | QUOTED_NAME -> quoted_name
    | "(" any ")"

COMPARE: "<>" | "<=" | ">=" | "=" | "<" | ">"
PLUS_MINUS: "+" | "-"
TIMES_BY: "*" | "/"
STRING: /'([^']|'')*'/
QUOTED_NAME: /"([^"]|"")+"/
FLOAT.2: /(\d+\.\d*|\.\d+)([eE][+-]?\d+)?[fFdD]?|\d+([eE][+-]?\d+[fFdD]?|[fFdD])/
INTEGER: /\d+[lL]?/
NAME: /[^\W\d][\w$.]*|\$[\w$.]*/
%ignore /\s+/
"""
_KEYWORDS = ("OR", "AND", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE")
_GRAMMAR += "".join(rf"_{word}.3: /{word}(?![\w$.])/i" + "\n" for word in _KEYWORDS)

_COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class InvalidSelector(ValueError):
    """The text is not a valid selector; the message says why, and quotes it."""


def parse(text: str) -> Condition:
    """Return a condition with the result True, False or None. Raises InvalidSelector."""
    if len(text) > MAX_LENGTH:
        raise InvalidSelector(f"selector {text[:40]!r}... has {len(text):,} characters: {MAX_LENGTH:,} at most")
    try:
        found = _parser().parse(text)
    except UnexpectedInput as fault:
        at = fault.pos_in_stream if isinstance(fault.pos_in_stream, int) else -1
        ended = at < 0 or (isinstance(fault, UnexpectedToken) and fault.token.type == "$END")
        where = "to its end: something is missing" if ended else f"from {text[at : at + 20]!r} on"
        raise InvalidSelector(f"selector {text!r} cannot be read {where}") from None
    except _Fault as fault:
        raise InvalidSelector(f"selector {text!r}: {fault}") from None
    assert isinstance(found, _Node)
    return found.condition


@cache
def _parser() -> Lark:
    return Lark(_GRAMMAR, parser="lalr", lexer="basic", transformer=_Builder())


class _Fault(Exception):
    """A selector that is syntactically valid and has no meaning."""


class _Node(NamedTuple):
    condition: Condition
    depth: int = 1


def _node(condition: Condition, *parts: _Node) -> _Node:
    depth = 1 + max((part.depth for part in parts), default=0)
    if depth > MAX_DEPTH:
        raise _Fault(f"its conditions are nested more than {MAX_DEPTH} deep")
    return _Node(condition, depth)


def _text(token: Token) -> str:
    """Of a quoted token."""
    quote = token[0]
    return str(token[1:-1]).replace(quote * 2, quote)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _compare(sign: str, one: Any, other: Any) -> bool | None:
    if one is None or other is None:
        return None
    if _is_number(one) and _is_number(other):
        return _COMPARE[sign](one, other)
    alike = (isinstance(one, str) and isinstance(other, str)) or (isinstance(one, bool) and isinstance(other, bool))
    return alike and sign in ("=", "<>") and _COMPARE[sign](one, other)


def _both(one: Any, other: Any) -> bool | None:
    if one is False or other is False:
        return False
    return True if one is True and other is True else None


def _not(value: Any) -> bool | None:
    return not value if isinstance(value, bool) else None


def _calculate(sign: str, one: Any, other: Any) -> Any:
    if not (_is_number(one) and _is_number(other)):
        return None
    try:
        if sign == "/":
            whole = isinstance(one, int) and isinstance(other, int)
            # Integers as Java divides them: towards 0.
            return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1) if whole else one / other
        return one + other if sign == "+" else one - other if sign == "-" else one * other
    except (ZeroDivisionError, OverflowError):
        return None


@v_args(inline=True)
class _Builder(Transformer[Token, _Node]):
    """Compile each rule of the grammar to a closure over those of its parts."""

    def any(self, *parts: _Node) -> _Node:
        conditions = [part.condition for part in parts]

        def one_is_true(of: Properties) -> bool | None:
            unknown = False
            for condition in conditions:
                found = condition(of)
                if found is True:
                    return True
                unknown = unknown or found is not False
            return None if unknown else False

        return _node(one_is_true, *parts)

    def all(self, *parts: _Node) -> _Node:
        conditions = [part.condition for part in parts]

        def none_is_false(of: Properties) -> bool | None:
            unknown = False
            for condition in conditions:
                found = condition(of)
                if found is False:
                    return False
                unknown = unknown or found is not True
            return None if unknown else True

        return _node(none_is_false, *parts)

    def negation(self, part: _Node) -> _Node:
        return _node(lambda of: _not(part.condition(of)), part)

    def compare(self, one: _Node, sign: Token, other: _Node) -> _Node:
        text = str(sign)
        return _node(lambda of: _compare(text, one.condition(of), other.condition(of)), one, other)

    def between(self, value: _Node, low: _Node, high: _Node) -> _Node:
        def inside(of: Properties) -> bool | None:
            found = value.condition(of)
            return _both(_compare(">=", found, low.condition(of)), _compare("<=", found, high.condition(of)))

        return _node(inside, value, low, high)

    def not_between(self, value: _Node, low: _Node, high: _Node) -> _Node:
        return self.negation(self.between(value, low, high))

    def within(self, value: _Node, *texts: Token) -> _Node:
        wanted = {_text(text) for text in texts}

        def found(of: Properties) -> bool | None:
            given = value.condition(of)
            return None if given is None else isinstance(given, str) and given in wanted

        return _node(found, value)

    def not_within(self, value: _Node, *texts: Token) -> _Node:
        return self.negation(self.within(value, *texts))

    def like(self, value: _Node, text: Token, escape: Token | None = None) -> _Node:
        try:
            pattern = like(_text(text), _text(escape) if escape else "")
        except InvalidPattern as invalid:
            raise _Fault(str(invalid)) from None

        def fits(of: Properties) -> bool | None:
            given = value.condition(of)
            return pattern(given) if isinstance(given, str) else None if given is None else False

        return _node(fits, value)

    def not_like(self, value: _Node, text: Token, escape: Token | None = None) -> _Node:
        return self.negation(self.like(value, text, escape))

    def is_null(self, value: _Node) -> _Node:
        return _node(lambda of: value.condition(of) is None, value)

    def is_not_null(self, value: _Node) -> _Node:
        return _node(lambda of: value.condition(of) is not None, value)

    def arithmetic(self, one: _Node, sign: Token, other: _Node) -> _Node:
        text = str(sign)
        return _node(lambda of: _calculate(text, one.condition(of), other.condition(of)), one, other)

    def signed(self, sign: Token, value: _Node) -> _Node:
        return _node(lambda of: _calculate(str(sign), 0, value.condition(of)), value)

    def string(self, token: Token) -> _Node:
        return self._constant(_text(token))

    def approximate(self, token: Token) -> _Node:
        return self._constant(float(token.rstrip("fFdD")))

    def exact(self, token: Token) -> _Node:
        return self._constant(int(token.rstrip("lL")))

    def true(self) -> _Node:
        return self._constant(True)

    def false(self) -> _Node:
        return self._constant(False)

    def name(self, token: Token) -> _Node:
        text = str(token)
        return _node(lambda of: of(text))

    def quoted_name(self, token: Token) -> _Node:
        text = _text(token)
        return _node(lambda of: of(text))

    @staticmethod
    def _constant(value: Any) -> _Node:
        return _node(lambda of: value)
