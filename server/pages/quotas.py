"""How much users and roles may take, how much they take now, and the statements that change it."""

from __future__ import annotations

from flask import request, url_for
from flask.typing import ResponseReturnValue

from model.errors import BadRequest
from model.text.sql_text import literal, quote
from model.work.quota import QUOTAS, Holder, quota_kind
from server.access.access import caller
from server.pages.actions import act
from server.pages.shell import bp, in_menu, render
from server.process.services import services


@bp.get("/quotas")
@in_menu("Quotas")
def quotas() -> ResponseReturnValue:
    """The quotas an administrator set; others see those that bind them."""
    rows = services().gateway.lake.quotas.shown(caller())
    taken = [QUOTAS[row.quota.name].parser.show(row.taken) if row.quota.name in QUOTAS else str(row.taken) for row in rows]
    return render("quotas.html", here="Quotas", rows=list(zip(rows, taken, strict=True)), kinds=list(QUOTAS.values()), holders=list(Holder))


@bp.post("/quotas")
def set_quota() -> ResponseReturnValue:
    """Set a quota as the form says, or take one away."""
    form = request.form
    try:
        holder = Holder(form.get("holder", ""))
    except ValueError:
        raise BadRequest("Choose whether the quota is for a user or a role.") from None
    name, principal = quota_kind(form.get("quota", "")).name, form.get("principal", "").strip()
    if not principal:
        raise BadRequest(f"Say the {holder.value.lower()}'s name.")
    whom = f"FOR {holder.value} {quote(principal)}"
    if form.get("reset") == "yes":
        return act(f"RESET QUOTA {name} {whom}", back=url_for("pages.quotas"))
    return act(f"SET QUOTA {name} = {literal(form.get('value', '').strip())} {whom}", back=url_for("pages.quotas"))
