"""Which issuer is trusted, as the settings say; apart from what talks to it, which loads later."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class OidcSettings:
    """Which issuer's tokens are taken, and what their claims mean here."""

    issuer: str
    audience: str
    client_id: str | None = None
    """Given where the pages log in by the issuer."""
    client_secret: str | None = None
    redirect_url: str | None = None
    scopes: tuple[str, ...] = ("openid", "profile")
    principal_claim: str = "sub"
    groups_claim: str = "groups"
    roles: tuple[tuple[str, str], ...] = ()
    """Pairs of a group and the role its members have."""
    skew_seconds: int = 60
