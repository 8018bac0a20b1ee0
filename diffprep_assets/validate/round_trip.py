"""What stored latents turn out to be when the source is gone: decoded, and encoded again.

Where latents are what they should be, encode(decode(z)) comes back near z. Under a wrong scale or
shift it does not, but does once that is undone. Blue for red shows no trace here: such a picture is
a picture too.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from diffprep_assets.validate.latent_readings import (
    KNOWN_SCALES,
    scale_fault,
    shift_fault,
)

Turn = Callable[[np.ndarray], np.ndarray]

# Of z's variance. Sound latents miss by less than NEAR (with the demo's VAE by 0.002), those of no
# picture by FAR and more. A mistake is named when undoing it leaves a quarter of the miss or less.
NEAR = 0.02
FAR = 0.3
DECISIVE = 0.25
# No pixel in a hundred darker than this, in [-1, 1], over all pictures: they were never below 0.
NEVER_DARK = -0.04
MIN_PICTURES = 4


@dataclass(frozen=True, slots=True)
class RoundTrip:
    """How latents read as slope * z + intercept come back: the share of z's variance by which they
    miss, and the value below which one pixel in a hundred of the decoded pictures lies."""

    slope: float
    intercept: float
    missed: float
    darkest: float


def round_trip(
    stored: Sequence[np.ndarray], *, slope: float, intercept: float, encode: Turn, decode: Turn
) -> RoundTrip:
    """The latents [C, h, w] so read, decoded, cut to [-1, 1] and encoded again."""
    missed = spread = 0.0
    values = []
    for latents in stored:
        z = (latents - intercept) / slope
        picture = decode(z).clip(-1, 1)
        missed += float(np.square(encode(picture) - z).sum())
        spread += float(np.square(z - z.mean()).sum())
        values.append(picture.ravel())
    darkest = float(np.quantile(np.concatenate(values), 0.01))
    return RoundTrip(slope, intercept, missed / max(spread, 1e-12), darkest)


def round_trip_faults(
    stored: Sequence[np.ndarray], *, scale: float, shift: float, encode: Turn, decode: Turn
) -> tuple[RoundTrip, list[str]]:
    """How the latents come back as they are, and what is wrong with them, a sentence each."""

    def tried(slope: float, intercept: float) -> RoundTrip:
        return round_trip(stored, slope=slope, intercept=intercept, encode=encode, decode=decode)

    right = tried(scale, -scale * shift)
    if right.missed <= NEAR:
        return right, _range_faults(right, num_pictures=len(stored))
    best = min(
        (tried(slope, intercept) for slope, intercept in suspects(scale=scale, shift=shift)),
        key=lambda trip: trip.missed,
    )
    if best.missed > DECISIVE * right.missed:
        if right.missed <= FAR:
            return right, _range_faults(right, num_pictures=len(stored))
        return right, [
            f"decoded and encoded again they come back far from themselves ({right.missed:.0%} of "
            "their variance away), under every scale and shift tried: not latents of this VAE, or "
            "not of pictures in [-1, 1]"
        ]
    found = []
    if best.slope != scale:
        found.append(scale_fault(best.slope, scale=scale))
    got = -best.intercept / best.slope
    if abs(got - shift) > 1e-9:
        found.append(shift_fault(got, scale=scale, shift=shift))
    return right, found


def suspects(*, scale: float, shift: float) -> list[tuple[float, float]]:
    """Slope and intercept of each usual mistake."""
    slopes = [scale, 1.0, scale**2, 1 / scale, *KNOWN_SCALES]
    found = [(slope, -slope * kept) for slope in slopes for kept in (shift, 0.0)]
    found += [(scale, scale * shift), (scale, -shift), (scale, -2 * scale * shift)]
    return [pair for pair in dict.fromkeys(found) if pair != (scale, -scale * shift)]


def _range_faults(trip: RoundTrip, *, num_pictures: int) -> list[str]:
    if num_pictures < MIN_PICTURES or trip.darkest < NEVER_DARK:
        return []
    return [
        "value range: no decoded picture has anything darker than middle grey: pixels in [0, 1] "
        "were encoded instead of [-1, 1]"
    ]
