"""``sluice token``: make, list and revoke the tokens callers are known by."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import sys
from collections.abc import Callable
from typing import TypeVar

import click

from sluice.client import DEFAULT_URL, Client, ServerError
from sluice.terminal import printable, printable_lines

_UNITS = {"m": dt.timedelta(minutes=1), "h": dt.timedelta(hours=1), "d": dt.timedelta(days=1), "y": dt.timedelta(days=365)}
_url = click.option("--url", envvar="SLUICE_URL", default=DEFAULT_URL, show_default=True, help="The server. [SLUICE_URL]")
_token = click.option("--token", envvar="SLUICE_TOKEN", default=None, help="An administrator's token. [SLUICE_TOKEN]")
T = TypeVar("T")


class Expiry(click.ParamType[str]):
    """``90d``, ``12h``, ``30m``, ``1y``, or an ISO 8601 instant."""

    name = "expiry"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The instant, as the server reads it."""
        if match := re.fullmatch(r"(\d{1,6})([mhdy])", value):
            return (dt.datetime.now(dt.UTC) + int(match[1]) * _UNITS[match[2]]).isoformat(timespec="seconds")
        try:
            moment = dt.datetime.fromisoformat(value)
        except ValueError:
            self.fail(f"{value!r} is neither a time span such as 90d or 12h nor an ISO 8601 time.", param, ctx)
        return (moment if moment.tzinfo else moment.astimezone()).isoformat()


@click.group()
def token() -> None:
    """Make, list and revoke tokens (administrators only; the first one closes an open server)."""


@token.command()
@click.argument("name")
@click.option("--principal", help="The user it speaks for; several tokens may speak for one. Without it: NAME.")
@click.option("--admin", is_flag=True, help="Its holder may do everything.")
@click.option("--expires", type=Expiry(), help="When it ends: 90d, 12h, or an ISO 8601 time. Without it: never.")
@_url
@_token
def create(name: str, principal: str | None, admin: bool, expires: str | None, url: str, token: str | None) -> None:
    """Make the token NAME and print its secret, which is shown only now."""
    made = _with_client(url, token, lambda client: client.create_token(name, principal=principal, administrator=admin, expires_at=expires))
    click.echo(made["token"])


@token.command("list")
@_url
@_token
def list_(url: str, token: str | None) -> None:
    """List the tokens; their secrets are not kept anywhere."""
    tokens = _with_client(url, token, lambda client: client.tokens())
    now = dt.datetime.now(dt.UTC)
    for each in tokens:
        until = each["expiresAt"]
        ended = until is not None and dt.datetime.fromisoformat(until) <= now
        end = "never expires" if until is None else f"{'expired' if ended else 'expires'} {until}"
        click.echo(
            f"{printable(each['name'])}\t{printable(each['principal'])}\t{'administrator' if each['administrator'] else 'user'}\t{end}"
        )


@token.command()
@click.argument("name")
@_url
@_token
def revoke(name: str, url: str, token: str | None) -> None:
    """Make the token NAME worthless, at once on the server asked and within a second on others."""
    opened = _with_client(url, token, lambda client: client.revoke_token(name))
    click.echo(f"{name} is revoked." + (" It was the last token: the server is open again, on loopback." if opened else ""))


def _with_client(url: str, token: str | None, work: Callable[[Client], T]) -> T:
    try:
        with contextlib.closing(Client(url, token)) as client:
            return work(client)
    except ServerError as error:
        click.echo(f"sluice: {printable_lines(str(error))}", err=True)
        sys.exit(1)
