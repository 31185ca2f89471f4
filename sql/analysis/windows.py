"""Windowing table functions as Spark SQL that gives Flink's windows.

Windows lie on the clock: of a TIMESTAMP as it is, of a TIMESTAMP_LTZ as the session's zone shows it, so that window_start and
window_end are TIMESTAMPs, and window_time, the window's last millisecond, has the time column's type. Rows without a time are in no window.
"""

from __future__ import annotations

from sqlglot import exp

from model.text.sql_text import quote
from sql.dialect import parse_one
from sql.parsing.windows import WINDOW, Window

_DATA = "__sluice_windowed"
_END = "__sluice_window"
WINDOW_COLUMNS = ("window_start", "window_end", "window_time")


def window_of(node: exp.Expr) -> Window | None:
    """The window function a subquery stands for."""
    window = node.meta.get(WINDOW) if isinstance(node, exp.Subquery) else None
    return window if isinstance(window, Window) else None


def expand_windows(tree: exp.Expr) -> None:
    """Turn the subqueries that carry a window function into ones that compute it, in place, innermost first."""
    for node in reversed(list(tree.find_all(exp.Subquery))):
        window = window_of(node)
        if window is not None:
            del node.meta[WINDOW]
            if node.args.get("alias") is None:
                node.set("alias", exp.TableAlias(this=exp.to_identifier(_DATA, quoted=True)))
            node.set("this", windowed(node.this, window))


def windowed(data: exp.Expr, window: Window) -> exp.Expr:
    """The rows of a query with their windows beside them."""
    made = parse_one(_TEXTS[window.kind](window))
    (table,) = (t for t in made.find_all(exp.Table) if t.name == _DATA)
    table.replace(exp.Subquery(this=data, alias=exp.TableAlias(this=exp.to_identifier(_DATA, quoted=True))))
    return made


def local_time(column: str) -> str:
    """The time column as the clock shows it; what is no time is an error, not read as one."""
    name = quote(column)
    wrong = f"'DESCRIPTOR({column.replace(chr(39), chr(39) * 2)}) is no TIMESTAMP or TIMESTAMP_LTZ'".replace("\\", "\\\\")
    return (
        f"CASE WHEN typeof({name}) IN ('timestamp', 'timestamp_ntz') THEN CAST({name} AS TIMESTAMP_NTZ) "
        f"ELSE CAST(raise_error({wrong}) AS TIMESTAMP_NTZ) END"
    )


def span(millis: int) -> str:
    """An interval of so many milliseconds."""
    return f"make_dt_interval(0, 0, 0, {millis // 1000}.{millis % 1000:03d})"


def _spark_window(at: str, size: int, slide: int, offset: int) -> str:
    return f"window({at}, '{size} milliseconds', '{slide} milliseconds', '{offset % slide} milliseconds')"


def _with_time(inner: str, column: str, start: str, end: str, hidden: str) -> str:
    # nvl2 gives the wider of its types: TIMESTAMP_LTZ where the column is one, and the clock time in the session's zone then.
    name = quote(column)
    return (
        f"SELECT * EXCEPT ({hidden}), {start} AS window_start, {end} AS window_end, "
        f"nvl2({name}, {end} - {span(1)}, {name}) AS window_time FROM ({inner})"
    )


def _tumble(window: Window) -> str:
    return _hop(window)


def _hop(window: Window) -> str:
    data, name = f"{_DATA} WHERE {quote(window.column)} IS NOT NULL", window.column
    if window.step > window.size:  # rows between two windows are in none, which Spark's own function does not offer
        made = _spark_window(local_time(name), window.step, window.step, window.offset)
        inner = f"SELECT * FROM (SELECT *, {made} AS {_END} FROM {data}) WHERE {local_time(name)} < {_END}.start + {span(window.size)}"
        return _with_time(inner, name, f"{_END}.start", f"({_END}.start + {span(window.size)})", _END)
    made = _spark_window(local_time(name), window.size, window.step, window.offset)
    return _with_time(f"SELECT *, {made} AS {_END} FROM {data}", name, f"{_END}.start", f"{_END}.end", _END)


def _cumulate(window: Window) -> str:
    at = local_time(window.column)
    whole = _spark_window(at, window.size, window.size, window.offset)
    first = _spark_window(at, window.step, window.step, window.offset)
    inner = f"SELECT *, {whole} AS {_END} FROM {_DATA} WHERE {quote(window.column)} IS NOT NULL"
    inner = f"SELECT *, {first} AS {_END}_first FROM ({inner})"
    ends = f"sequence({_END}_first.end, {_END}.end, {span(window.step)})"
    inner = f"SELECT *, explode({ends}) AS {_END}_end FROM ({inner})"
    return _with_time(inner, window.column, f"{_END}.start", f"{_END}_end", f"{_END}, {_END}_first, {_END}_end")


def _session(window: Window) -> str:
    """A row more than the gap after the one before it begins a new session."""
    keys = ", ".join(map(quote, window.keys))
    part, gap, at = f"PARTITION BY {keys} " if keys else "", span(window.size), f"{_END}_at"
    inner = f"SELECT *, {local_time(window.column)} AS {at} FROM {_DATA} WHERE {quote(window.column)} IS NOT NULL"
    begins = f"CASE WHEN {at} <= lag({at}) OVER ({part}ORDER BY {at}) + {gap} THEN 0 ELSE 1 END AS {_END}_new"
    inner = f"SELECT *, {begins} FROM ({inner})"
    number = f"sum({_END}_new) OVER ({part}ORDER BY {at} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {_END}_number"
    inner = f"SELECT *, {number} FROM ({inner})"
    same = f"OVER (PARTITION BY {keys}{', ' if keys else ''}{_END}_number)"
    inner = f"SELECT *, min({at}) {same} AS {_END}_start, max({at}) {same} + {gap} AS {_END}_end FROM ({inner})"
    hidden = ", ".join(f"{_END}_{name}" for name in ("at", "new", "number", "start", "end"))
    return _with_time(inner, window.column, f"{_END}_start", f"{_END}_end", hidden)


_TEXTS = {"TUMBLE": _tumble, "HOP": _hop, "CUMULATE": _cumulate, "SESSION": _session}
