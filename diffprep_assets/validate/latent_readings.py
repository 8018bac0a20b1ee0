"""What stored latents turn out to be: which pixels were encoded, and by which factors scaled.

Latents should be `scale * (z - shift)`, z being what the VAE gives for RGB pixels in [-1, 1].
Whoever wrote them may have given it other pixels, or scaled otherwise. With the pictures at hand
every such reading is tried: the pixels are encoded as it says, and a straight line is fitted from z
to what is stored. The true reading leaves next to nothing unexplained, and the line's slope and
intercept are the factors that were used.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

Encode = Callable[[np.ndarray], np.ndarray]

# A larger share of the variance left over, and the latents are something else altogether.
UNLIKE = 0.5
# Another reading is believed when it leaves at most this share of what the right one leaves.
DECISIVE = 0.5
# How far factors may be off; rounding, noise and other kernels move them by less.
SCALE_TOLERANCE = 0.02
SHIFT_TOLERANCE = 0.25
SHIFT_FLOOR = 0.01  # of z's standard deviation: for a shift that is 0 or next to it
RIGHT_RANGE = "[-1, 1]"
RANGES: Mapping[str, Callable[[np.ndarray], np.ndarray]] = {
    RIGHT_RANGE: lambda pixels: pixels / 127.5 - 1,
    "[0, 1]": lambda pixels: pixels / 255,
    "0 to 255": lambda pixels: pixels,
}
KNOWN_SCALES = {
    0.18215: "Stable Diffusion 1 and 2",
    0.13025: "SDXL",
    1.5305: "Stable Diffusion 3",
    0.3611: "FLUX.1",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """Pixels in `value_range`, blue before red if `swapped`; stored = slope * z + intercept.

    `unexplained` is the share of the latents' variance left over in the nearer half of the samples,
    `by_sample` each sample's share of its own; `spread` is z's standard deviation.
    """

    value_range: str
    swapped: bool
    slope: float
    intercept: float
    spread: float
    unexplained: float
    by_sample: tuple[float, ...]

    @property
    def shift(self) -> float:
        return -self.intercept / self.slope

    def unscaled(self, stored: np.ndarray) -> np.ndarray:
        """z, as this reading has it."""
        return (stored - self.intercept) / self.slope

    def undone(self, decoded: np.ndarray) -> np.ndarray | None:
        """What the decoded picture should have been, in [-1, 1]; None where no way leads back."""
        picture = decoded[..., ::-1] if self.swapped else decoded
        if self.value_range == RIGHT_RANGE:
            return picture
        return 2 * picture - 1 if self.value_range == "[0, 1]" else None


def best_reading(
    stored: Sequence[np.ndarray], pictures: Sequence[np.ndarray], *, encode: Encode
) -> Reading:
    """The reading of these latents [C, h, w] of these pictures, uint8 [H, W, 3] each: the right
    pixels unless others explain the latents decisively better."""
    readings = [
        _reading(stored, pictures, value_range=value_range, swapped=swapped, encode=encode)
        for value_range in RANGES
        for swapped in (False, True)
    ]
    best = min(readings, key=lambda reading: reading.unexplained)
    return best if best.unexplained < DECISIVE * readings[0].unexplained else readings[0]


def faults(reading: Reading, *, scale: float, shift: float) -> list[str]:
    """What is wrong with latents of this reading, a sentence each; `scale` and `shift` are the
    factors that they should have."""
    if reading.unexplained > UNLIKE:
        return [
            "they are not this VAE's encoding of the source's pictures, in whatever order of "
            "channels, value range or scale: made with another VAE, or of other pictures"
        ]
    found = []
    if reading.swapped:
        found.append("channel order: blue and red are exchanged (BGR pixels were encoded)")
    if reading.value_range != RIGHT_RANGE:
        found.append(
            f"value range: pixels in {reading.value_range} were encoded instead of {RIGHT_RANGE}"
        )
    if abs(reading.slope / scale - 1) > SCALE_TOLERANCE:
        found.append(scale_fault(reading.slope, scale=scale))
    allowed = max(SHIFT_TOLERANCE * abs(shift), SHIFT_FLOOR * reading.spread)
    if abs(reading.shift - shift) > allowed:
        found.append(shift_fault(reading.shift, scale=scale, shift=shift))
    return found


def scale_fault(got: float, *, scale: float) -> str:
    """The sentence on a wrong scaling factor."""
    meanings = {
        1.0: "the scaling factor was left out",
        scale**2: "the scaling factor was applied twice",
        1 / scale: "they were divided by the scaling factor instead of multiplied",
        **{value: f"that is the factor of {name}" for value, name in KNOWN_SCALES.items()},
    }
    return f"scale: z was multiplied by {got:.4g} instead of {scale:.4g}" + _meaning(got, meanings)


def shift_fault(got: float, *, scale: float, shift: float) -> str:
    """The sentence on a wrong shift factor."""
    meanings = {
        0.0: "the shift factor was left out",
        -shift: "the shift factor was added instead of subtracted",
        2 * shift: "the shift factor was subtracted twice",
        shift / scale: "the shift factor was subtracted after scaling instead of before",
    }
    return f"shift: {got:.4g} was subtracted from z instead of {shift:.4g}" + _meaning(
        got, meanings, size=abs(shift)
    )


def _reading(
    stored: Sequence[np.ndarray],
    pictures: Sequence[np.ndarray],
    *,
    value_range: str,
    swapped: bool,
    encode: Encode,
) -> Reading:
    scaled = RANGES[value_range]
    z = [
        encode(scaled(picture[..., ::-1] if swapped else picture).astype(np.float32))
        for picture in pictures
    ]
    line = _line(z, stored)
    # Again by the nearer half: samples of other pictures must not bend the line.
    order = np.argsort(_shares(z, stored, line))[: (len(stored) + 1) // 2]
    near_z, near = [z[number] for number in order], [stored[number] for number in order]
    line = _line(near_z, near)
    slope, intercept = line
    left = _flat(near) - slope * _flat(near_z) - intercept
    return Reading(
        value_range,
        swapped,
        slope,
        intercept,
        spread=float(_flat(near_z).std()),
        unexplained=float(np.square(left).mean() / max(_flat(near).var(), 1e-12)),
        by_sample=tuple(_shares(z, stored, line)),
    )


def _shares(
    z: Sequence[np.ndarray], stored: Sequence[np.ndarray], line: tuple[float, float]
) -> list[float]:
    """How much of each sample's own variance the line leaves over."""
    slope, intercept = line
    return [
        float(np.square(own - slope * part - intercept).mean() / max(own.var(), 1e-12))
        for own, part in zip(stored, z, strict=True)
    ]


def _line(z: Sequence[np.ndarray], stored: Sequence[np.ndarray]) -> tuple[float, float]:
    """Slope (never 0) and intercept of the least squares line."""
    x, y = _flat(z), _flat(stored)
    variance = float(x.var())
    slope = float(((x - x.mean()) * (y - y.mean())).mean()) / variance if variance else 0.0
    slope = slope or 1e-12
    return slope, float(y.mean()) - slope * float(x.mean())


def _flat(arrays: Sequence[np.ndarray]) -> np.ndarray:
    return np.concatenate([array.ravel() for array in arrays]).astype(np.float64)


def _meaning(got: float, meanings: Mapping[float, str], *, size: float | None = None) -> str:
    """The meaning whose number is nearest, if it is near; `size` for numbers around 0."""
    value = min(meanings, key=lambda value: abs(value - got))
    near = abs(got - value) <= 0.05 * (size or abs(value))
    return f": {meanings[value]}" if near else ""
