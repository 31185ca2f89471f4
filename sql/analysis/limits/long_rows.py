"""Calls that may take hours over one row, in which no task is stopped: numbers that are written out, and what compares all with all."""

from __future__ import annotations

import re
from functools import partial

from sqlglot import exp

from sql.analysis.limits.guards import call, guard_call, matches, number, wide
from sql.analysis.limits.spelled import arguments_of

_MOST_PAIRS = 100_000_000
_DECIMAL = re.compile(r"\b(dec|decimal|numeric)\b", re.IGNORECASE)
_ESCAPED = r"\\u[0-9a-fA-F]{4}|&#[0-9a-zA-Z]++;"
_DIGIT = rf"(?:[\p{{Nd}}.\u00d7\u00b7\u0623\u0627]|{_ESCAPED})"
"""Of a number in JSON, CSV or XML, or what stands for one there; some languages write 1×10^9."""
_POWER = rf"(?:\p{{Nd}}|{_ESCAPED})"
_E = r"(?:[eE^\u0415\u0633]|\\u00[46]5|\\u005[eE]|\\u0415|\\u0633|&#(?:0*69|0*101|[xX]0*[46]5);)"
"""Before an exponent: the last of what a language writes there, two of which have a letter of their own."""
_SIGN = r"[-+\u2212\u200e\u200f\u061c]"
_REFERENCE = r"&#[0-9a-zA-Z]{1,8};|[0-9a-zA-Z]{9};"
"""Behind a place: Java looks back as far as it is told, and a longer reference ends as a long word with a semicolon does."""
_BY_ITSELF = rf"(?<![\p{{Nd}}.A-Za-z]|[0-9a-fA-F]-|{_REFERENCE})"
_NO_NAME = "(?![A-Za-z-])"
_UNQUOTED = rf"{_BY_ITSELF}(?:(?!{_E}){_DIGIT})++{_E}{_SIGN}*+{_POWER}{{6,}}+{_NO_NAME}"
"""A number by itself whose exponent has six digits; the parts of a digest or a UUID are none. Java goes into its stack with each turn of
a choice that is repeated, unless it never gives back."""
_QUOTED = rf"(?:\A|[\s:,\[{{])[\"'](?:(?!{_E})(?:{_DIGIT}|[-+,]))++{_E}(?:{_SIGN}|,)*+(?:{_POWER},*+){{6,}}+[\"']"
"""A text of nothing else: commas, wherever they stand, are taken out of it. Outside of quotes they end a number."""
FAR = f"{_UNQUOTED}|{_QUOTED}"
"""What a text of JSON or CSV has that holds a number with an exponent of six digits, and what looks like one."""
_JOINS = r"(?:,|<!\[CDATA\[|\]\]>)"
_FAR_IN_XML = (
    rf"(?<![\p{{Nd}}.,A-Za-z]|[0-9a-fA-F]-|{_REFERENCE}|CDATA\[|\]\]>)(?:(?!{_E})(?:{_DIGIT}|{_JOINS}))++"
    rf"{_E}(?:{_SIGN}|{_JOINS})*+(?:{_POWER}{_JOINS}*+){{6,}}+{_NO_NAME}"
)
"""There commas are taken out, too, and a text may be put together of parts."""
_FAR_ANYWHERE = rf"{_DIGIT}[\\,]*+{_E}(?:{_SIGN}|[\\,])*+(?:{_POWER}[\\,]*+){{6}}"
"""For options that say what stands between values, or inside one."""
_BETWEEN = frozenset(
    {
        "sep", "delimiter", "quote", "escape", "chartoescapequoteescaping", "comment", "linesep", "allowbackslashescapinganycharacter",
        "allowcomments",
    }
)  # fmt: skip
_OF_EXAMPLES = frozenset({"schema_of_json", "schema_of_csv", "schema_of_xml"})
_MAYBE_DECIMAL = re.compile(r"[\d.,]{19}|\d[eE]|\\u|&#")
"""Of an example: the numbers of which Spark may make a DECIMAL without an option for it."""
_UNHASHED = "^(array|map)<(array|struct|map|binary|string collate|variant|interval)"
"""Types of what holds values that Spark compares one by one: of the others it makes a table."""


def bound_exponents(node: exp.Anonymous) -> None:
    """``from_json`` and its like write a number out to round it to a DECIMAL; CAST does not."""
    arguments = arguments_of(node, 2)
    if arguments is None or not _may_have_decimal(arguments[1]):
        return
    if node.name.lower() == "from_xml":
        pattern = _FAR_IN_XML
    else:
        pattern = _FAR_ANYWHERE if len(arguments) > 2 and _says_what_is_between(arguments[2]) else FAR
    says = f"{node.name} reads no number with an exponent of six digits or more where its schema has a DECIMAL."
    guard_call(node, [0], partial(matches, pattern=pattern), says, at=0)


def _may_have_decimal(schema: exp.Expr) -> bool:
    if isinstance(schema, exp.Literal):
        return _DECIMAL.search(schema.name) is not None
    if isinstance(schema, exp.Anonymous) and schema.name.lower() in _OF_EXAMPLES and len(schema.expressions) == 1:
        example = schema.expressions[0]
        return not isinstance(example, exp.Literal) or _MAYBE_DECIMAL.search(example.name) is not None
    return True


def _says_what_is_between(options: exp.Expr) -> bool:
    """Whether options may do; that a comma separates is how it is without any."""
    if isinstance(options, exp.Map | exp.VarMap):
        parts = [options.args.get("keys"), options.args.get("values")]
        spelled = [list(part.expressions) if isinstance(part, exp.Array) else [] for part in parts]
    elif isinstance(options, exp.Anonymous) and options.name.lower() == "map":
        spelled = [options.expressions[::2], options.expressions[1::2]]
    else:
        return True
    pairs = list(zip(*spelled, strict=False))
    if not pairs or not all(isinstance(one, exp.Literal) for pair in pairs for one in pair):
        return True
    named = {key.name.lower(): value.name for key, value in pairs}
    return any(name in _BETWEEN and not (name in ("sep", "delimiter") and value == ",") for name, value in named.items())


def bound_pairs(node: exp.Anonymous) -> None:
    """``array_union`` and its like compare each value with each other where they are no plain ones."""
    count = 1 if node.name.lower() == "array_distinct" else 2
    arguments = arguments_of(node, count)
    if arguments is None or all(isinstance(argument, exp.Array) for argument in arguments[:count]):
        return
    says = f"{node.name} compares at most {_MOST_PAIRS} pairs of values that are no numbers, texts or times."
    guard_call(node, range(count), _many_pairs, says, at=0)


def _many_pairs(*given: exp.Expr) -> exp.Expr:
    sizes = [wide(call("size", one.copy())) for one in given]
    together: exp.Expr = sizes[0] if len(sizes) == 1 else exp.Paren(this=exp.Add(this=sizes[0], expression=sizes[1]))
    many = exp.GT(this=exp.Mul(this=together, expression=together.copy()), expression=number(_MOST_PAIRS))
    return exp.And(this=matches(call("typeof", given[0].copy()), _UNHASHED), expression=exp.Paren(this=many))
