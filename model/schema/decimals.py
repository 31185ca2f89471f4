"""Which numbers a DECIMAL holds: asked before Arrow sees one, which reads beyond its own tables where an exponent is far off."""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, InvalidOperation

from model.schema.types import DecimalType

_WIDE = Context(prec=76, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation])


def held(type_: DecimalType, number: Decimal) -> Decimal | None:
    """The number with as many digits behind the point as the type has; None where it would be rounded or is too large."""
    if not number.is_finite() or (number and number.adjusted() >= type_.precision - type_.scale):
        return None
    exact = _WIDE.quantize(number, Decimal(1).scaleb(-type_.scale))
    return exact if exact == number else None
