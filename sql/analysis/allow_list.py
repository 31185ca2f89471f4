"""The last look at what Spark is about to be given: only queries, only our views, only known functions.

It reads the very text Spark will parse, token by token, so no spelling, quoting, comment or rewriting gets past it.
"""

from __future__ import annotations

from collections.abc import Collection

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from model.errors import UnsupportedStatement, nearest
from sql.analysis.functions import FLINKS, FUNCTIONS, HINTS, REFUSED, SYNTAX, TABLE_FUNCTIONS
from sql.dialect import is_query, parse_one, tokens_of

_FORBIDDEN_NODES: tuple[tuple[type[exp.Expr], str], ...] = (
    (exp.QueryTransform, "TRANSFORM … USING starts programs on the server"),
    (exp.Command, "the statement is not a query"),
    (exp.Parameter, "parameters and variables are not available"),
    (exp.SessionParameter, "session variables are not available"),
    (exp.Placeholder, "parameters are not available here"),
)

_XML_ARGUMENTS = {"from_xml": 2, "schema_of_xml": 1}
"""Arguments before the options, of which ``rowValidationXSDPath`` makes Spark open a file, and what that file points to."""


def check(text: str, views: Collection[str]) -> None:
    """Raise `UnsupportedStatement` naming what is not allowed in the Spark SQL about to run; ``views`` are its tables."""
    tree = parse_one(text)
    if not is_query(tree):
        raise UnsupportedStatement(f"{tree.key.upper()} is not a query and is not run.")
    for node in tree.walk():
        for kind, reason in _FORBIDDEN_NODES:
            if isinstance(node, kind):
                written = node.sql("spark")[:80]
                fragment = "TRANSFORM" if kind is exp.QueryTransform else written.strip("${}")
                raise UnsupportedStatement(f"'{written}' is not available: {reason}.", fragment=fragment)
        if isinstance(node, exp.Anonymous) and len(node.expressions) > _XML_ARGUMENTS.get(node.name.lower(), len(node.expressions)):
            raise UnsupportedStatement(f"{node.name} takes no options here: one names a file of the server to read.", fragment=node.name)
        if isinstance(node, exp.Hint):
            _check_hint(node)
        if isinstance(node, exp.Table) and not isinstance(node.parent, exp.JoinHint):
            _check_table(node, views, tree)
    _check_calls(tokens_of(text), _named_with_columns(tree))


def _check_hint(hint: exp.Hint) -> None:
    """A hint names a way to join or to part rows, and takes names and numbers: a call inside would be run, too."""
    for one in hint.expressions:
        if not isinstance(one, exp.Expr):
            raise UnsupportedStatement(f"The hint {one} is not available.", fragment=str(one))
        name = one.name if isinstance(one, exp.Anonymous | exp.JoinHint | exp.Column | exp.Var) else one.sql("spark").partition("(")[0]
        plain = all(isinstance(part, exp.Column | exp.Identifier | exp.Table | exp.Literal) for part in one.expressions)
        if name.lower() not in HINTS or not plain:
            raise UnsupportedStatement(f"The hint {one.sql('spark')[:80]} is not available.", fragment=name or None)


def _check_table(node: exp.Table, views: Collection[str], tree: exp.Expr) -> None:
    if not isinstance(node.this, exp.Identifier):
        name = node.this.name if isinstance(node.this, exp.Anonymous) else node.this.sql_name() if isinstance(node.this, exp.Func) else ""
        if name.lower() not in TABLE_FUNCTIONS:
            raise UnsupportedStatement(f"The table function {name or node.sql('spark')} is not available.", fragment=name or None)
        return
    if len(node.parts) == 1 and (node.name in views or any(cte.alias == node.name for cte in tree.find_all(exp.CTE))):
        return
    raise UnsupportedStatement(f"'{node.sql('spark')}' is no table of the catalog.", fragment=node.name)


def _named_with_columns(tree: exp.Expr) -> set[str]:
    """Names that stand before a parenthesis because they name columns: ``WITH x(a) AS …``, ``… AS t(a)``."""
    names = {alias.name.lower() for alias in tree.find_all(exp.TableAlias) if alias.args.get("columns")}
    return names - REFUSED.keys() - FUNCTIONS


def _check_calls(tokens: list[Token], named: set[str]) -> None:
    for index, token in enumerate(tokens[:-1]):
        if tokens[index + 1].token_type != TokenType.L_PAREN or not _is_word(token):
            continue
        before = tokens[index - 1] if index else None
        if before is not None and before.token_type == TokenType.ALIAS:
            continue  # AS name(…) names columns, AS TYPE(n) is a type: neither calls anything
        name = token.text.lower()
        quoted = token.token_type == TokenType.IDENTIFIER
        if before is not None and before.token_type == TokenType.DOT:
            raise UnsupportedStatement(
                f"The function {token.text} is called by a qualified name, which is not available.", fragment=token.text
            )
        if name in FUNCTIONS or name in named or (name in SYNTAX and not quoted):
            continue
        raise _refused(token.text)


def _is_word(token: Token) -> bool:
    return token.token_type == TokenType.IDENTIFIER or token.text[:1].isalpha() or token.text[:1] == "_"


def _refused(name: str) -> UnsupportedStatement:
    if reason := REFUSED.get(name.lower()):
        return UnsupportedStatement(f"The function {name} is not available: {reason}.", fragment=name)
    near = FLINKS.get(name.lower()) or nearest(name.lower(), FUNCTIONS)
    hint = f" Did you mean {near}?" if near else " SHOW FUNCTIONS lists what there is."
    return UnsupportedStatement(f"There is no function {name}.{hint}", fragment=name)
