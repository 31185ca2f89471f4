"""``/tokens``: made, listed and revoked by administrators."""

from __future__ import annotations

import orjson
from flask import Blueprint, Response

from lake.access.permissions import Permissions
from model.access import AccessToken
from model.errors import BadRequest, nearest
from server.access.access import caller
from server.access.audit import tell
from server.openapi.document import documented, json_of
from server.process.services import services
from server.sql.bodies import instant, json_object, member, read_body

bp = Blueprint("tokens", __name__, url_prefix="/tokens")
_MEMBERS = ("name", "principal", "administrator", "expiresAt")
_MOST_BYTES = 1 << 16


def _permissions() -> Permissions:
    return services().gateway.lake.for_caller(caller()).permissions


@bp.post("")
@documented(tag="access", body=json_of("TokenRequest"), answers={201: json_of("Token")}, errors=(409, 413, 415))
def create() -> Response:
    """Make a token; the answer is the only one that ever holds its secret."""
    body = json_object(read_body(_MOST_BYTES))
    for name in body:
        if name not in _MEMBERS:
            near = nearest(name, _MEMBERS)
            raise BadRequest(f"There is no member '{name}'.{f' Did you mean {near}?' if near else ''}")
    made, secret = _permissions().create_token(
        member(body, "name", str, required=True),
        principal=member(body, "principal", str),
        administrator=bool(member(body, "administrator", bool)),
        expires_at=instant(body, "expiresAt"),
    )
    tell(token_told(made))
    return _answer(_shown(made) | {"token": secret}, 201)


@bp.get("")
@documented(tag="access", answers={200: json_of("Tokens")})
def tokens() -> Response:
    """Every token, without its secret."""
    return _answer({"tokens": [_shown(token) for token in _permissions().tokens()]}, 200)


@bp.delete("/<path:name>")
@documented(tag="access", answers={200: json_of("Revoked")}, errors=(404,))
def revoke(name: str) -> Response:
    """Make a token worthless at once."""
    return _answer({"open": _permissions().revoke_token(name)}, 200)


def token_told(token: AccessToken) -> str:
    """What the audit log says of a token that was made."""
    until = "" if token.expires_at is None else f", until {token.expires_at.isoformat()}"
    return f"token {token.name} of {token.principal}{', an administrator' if token.administrator else ''}{until}"


def _shown(token: AccessToken) -> dict[str, object]:
    return {
        "name": token.name,
        "principal": token.principal,
        "administrator": token.administrator,
        "createdAt": token.created_at,
        "expiresAt": token.expires_at,
    }


def _answer(body: dict[str, object], status: int) -> Response:
    return Response(orjson.dumps(body, option=orjson.OPT_UTC_Z), status, headers={"Cache-Control": "no-store"}, mimetype="application/json")
