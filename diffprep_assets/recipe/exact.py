"""Numbers of a recipe that are kept exactly: fractions, shares, and sides in pixels."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer

SIDE_STEP = 16
MAX_SIDE = 16384
TIER_STEP = 256

# Bounded digits: Fraction("1e999999999") would fill the memory.
_FRACTION_TEXT = re.compile(r"\d{1,12}(\.\d{1,12})?(\s*/\s*\d{1,12})?")


def read_fraction(value: object) -> Fraction:
    """The exact value of `4/3`, `1.5`, `2`, or of a float by its shortest decimal form.

    Raises ValueError for anything else, booleans included.
    """
    if isinstance(value, Fraction):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return Fraction(value)
    try:
        if isinstance(value, float):
            return Fraction(repr(value))
        if isinstance(value, str) and _FRACTION_TEXT.fullmatch(value.strip()):
            numerator, _, denominator = value.partition("/")
            return Fraction(numerator.strip()) / Fraction(denominator.strip() or 1)
    except (ValueError, ZeroDivisionError):
        pass
    raise ValueError("must be a number or a fraction like 4/3")


def fraction_text(value: Fraction) -> str:
    """`4/3`, `3/2`, `2`: one text for each value."""
    return str(value)


def share_number(value: Fraction) -> float | str:
    """The float that reads back as exactly this value, else its text (`1/3`)."""
    number = float(value)
    return number if Fraction(repr(number)) == value else str(value)


def nearest_multiple(value: int, *, step: int, largest: int) -> int:
    """The multiple of `step` in [step, largest] that is nearest to `value`; a tie goes up."""
    rounded = (2 * value + step) // (2 * step) * step
    return min(max(rounded, step), largest)


def _side(value: int) -> int:
    nearest = nearest_multiple(value, step=SIDE_STEP, largest=MAX_SIDE)
    if value != nearest:
        raise ValueError(
            f"must be a multiple of {SIDE_STEP} from {SIDE_STEP} to {MAX_SIDE}; "
            f"the nearest is {nearest}"
        )
    return value


def _positive(value: Fraction) -> Fraction:
    if value <= 0:
        raise ValueError("must be more than 0")
    return value


def _within_one(value: Fraction) -> Fraction:
    if not 0 <= value <= 1:
        raise ValueError("must be from 0 to 1")
    return value


Exact = Annotated[
    Fraction,
    BeforeValidator(read_fraction),
    AfterValidator(_positive),
    PlainSerializer(fraction_text, return_type=str, when_used="json"),
]
Share = Annotated[
    Fraction,
    BeforeValidator(read_fraction),
    AfterValidator(_within_one),
    PlainSerializer(share_number, return_type=float | str, when_used="json"),
]
Side = Annotated[int, AfterValidator(_side)]
Text = Annotated[str, Field(min_length=1)]
