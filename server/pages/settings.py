"""Every setting of the server: its value, where it came from, and what it means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import request
from flask.typing import ResponseReturnValue
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from model.options.masking import MASK, masked
from model.options.option import Option
from server.access.access import caller
from server.pages.shell import bp, in_menu, render
from server.process.services import services
from server.settings.options import CATALOG_DIRECT_DSN, CATALOG_DSN, DATA, SERVER_OPTIONS, WAREHOUSE
from server.settings.settings import Settings, variable

_GROUPS = (
    ("Server", ("listen", "http.", "drain", "log.", "audit.", "token", "tls", "cors", "flight", "traces.")),
    ("Places", ("data", "catalog.", "warehouse", "import.", "remote.", "kafka.", "data-token")),
    ("Spark", ("spark.",)),
    ("Statements and results", ("session.", "statement.", "result.", "rows.", "spool.", "planning.")),
    ("Maintenance and jobs", ("compaction.", "jobs.")),
)
_OTHER = "More"


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownSetting:
    """A setting as the page shows it."""

    key: str
    variable: str
    value: str
    """In force, without what is secret; empty for none."""
    default: str
    given: bool
    """Whether the environment names it."""
    kind: str
    doc: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingGroup:
    """Settings about one thing."""

    title: str
    settings: Sequence[ShownSetting]


@bp.get("/settings")
@in_menu("Settings", administrators=True)
def settings() -> ResponseReturnValue:
    """All settings; administrators only, for they tell where everything lies."""
    caller().administers()
    wanted = request.args.get("q", "").strip()
    every = [_shown(option, services().settings) for option in SERVER_OPTIONS]
    matching = [setting for setting in every if _matches(setting, wanted.lower())]
    return render(
        "settings.html",
        here="Settings",
        groups=_grouped(matching),
        wanted=wanted,
        given=sum(setting.given for setting in every),
        count=len(every),
    )


def _matches(setting: ShownSetting, wanted: str) -> bool:
    return all(word in f"{setting.variable} {setting.key} {setting.value} {setting.doc}".lower() for word in wanted.split())


def _shown(option: Option[Any], settings: Settings) -> ShownSetting:
    raw = settings.given.get(option.key)
    return ShownSetting(
        key=option.key,
        variable=variable(option),
        value=_value(option, raw, settings),
        default=option.default_text(),
        given=raw is not None,
        kind=option.parser.kind.replace("\\|", "|"),
        doc=option.doc,
    )


def _value(option: Option[Any], raw: str | None, settings: Settings) -> str:
    if option.key in (CATALOG_DSN.key, CATALOG_DIRECT_DSN.key):
        return "" if raw is None else _without_password(raw)
    if option.key == WAREHOUSE.key:
        return settings.warehouse
    if option.key == DATA.key:
        return str(settings.data)
    text = option.default_text() if raw is None else raw.strip()
    return masked(option.key, text) if text else ""


def _without_password(dsn: str) -> str:
    try:
        parts = conninfo_to_dict(dsn)
        return make_conninfo("", **{key: MASK if "password" in key else value for key, value in parts.items()})
    except Exception:  # what libpq cannot read may hold a password anywhere
        return MASK


def _grouped(matching: Sequence[ShownSetting]) -> list[SettingGroup]:
    grouped: dict[str, list[ShownSetting]] = {title: [] for title in (*(title for title, _ in _GROUPS), _OTHER)}
    for setting in matching:
        grouped[next((title for title, keys in _GROUPS if _among(setting.key, keys)), _OTHER)].append(setting)
    return [SettingGroup(title=title, settings=settings) for title, settings in grouped.items() if settings]


def _among(key: str, keys: Sequence[str]) -> bool:
    """Whether a key is one of these, or begins with one of them and a part more."""
    return any(key == known or key.startswith((known if known.endswith(".") else f"{known}.", f"{known}-")) for known in keys)
