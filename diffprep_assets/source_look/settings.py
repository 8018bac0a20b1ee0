"""Settings that fit what was seen: the size of pictures, the size of shards, a caption's length."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from diffprep_assets.bucket.geometry import target_for
from diffprep_assets.recipe.schema import Buckets, Image
from diffprep_resources.errors import SampleReject

Size = tuple[int, int]

SQUARE = 1.03
SIDES = (1024, 768, 512, 256)
TOP_TIERS = (1024, 512, 256)
REACHED = 0.25
TAKEN = 0.98
ASPECTS = (2, 3, 4)
SHARD_SIZES = (1000, 500, 250, 100, 50, 25)
SHARDS_WANTED = 8


@dataclass(frozen=True, slots=True)
class ImageChoice:
    """`image` as a recipe writes it, the same as the schema has it, and the reason in words."""

    section: dict[str, object]
    image: Image
    why: str

    def left_out(self, sizes: Sequence[Size]) -> Counter[str]:
        """How many of the pictures these settings reject, by code."""
        counts: Counter[str] = Counter()
        for width, height in sizes:
            try:
                target_for(width, height, image=self.image)
            except SampleReject as reject:
                counts[reject.code] += 1
        return counts


def image_choice(sizes: Sequence[Size]) -> ImageChoice:
    """One square size for square pictures, buckets for the others, and the longest side kept for
    those that are too small for any tier."""
    squares = [size for size in sizes if max(size) <= SQUARE * min(size)]
    if not sizes or len(squares) >= 0.95 * len(sizes):
        side = _square_side(sizes)
        section: dict[str, object] = {"image_size": side, "center_crop": True}
        why = "the pictures are square" if sizes else "a guess: no picture was opened"
        return ImageChoice(section, Image.model_validate(section), why)
    buckets = _buckets(sizes)
    if buckets is None:
        longest = sorted(max(size) for size in sizes)[len(sizes) // 2]
        side = max(64, longest // 16 * 16)
        section = {"variable_size": True, "max_size": side}
        why = "most pictures are too small for a tier of 256"
        return ImageChoice(section, Image.model_validate(section), why)
    found = ImageChoice(buckets, Image.model_validate({"buckets": buckets}), "")
    section = {"buckets": buckets}
    return ImageChoice(section, found.image, "the pictures have many shapes")


def _square_side(sizes: Sequence[Size]) -> int:
    """The largest usual side that three quarters of the pictures reach; else their own."""
    if not sizes:
        return 1024
    sides = sorted(min(size) for size in sizes)
    lower = sides[len(sides) // 4]
    usual = [side for side in SIDES if side <= lower]
    return usual[0] if usual else max(16, lower // 16 * 16)


def _buckets(sizes: Sequence[Size]) -> dict[str, object] | None:
    """Tiers from the largest that a quarter of the pictures fill, down to where nearly all do."""
    aspect = _aspect(sizes)
    limits: dict[str, object] = {}
    if aspect != ASPECTS[0]:
        limits = {"min_aspect": f"1/{aspect}", "max_aspect": str(aspect)}
    for top in TOP_TIERS:
        tiers = [top]
        if _taken(sizes, tiers, aspect) < REACHED * len(sizes):
            continue
        while _taken(sizes, tiers, aspect) < TAKEN * len(sizes) and tiers[0] > 256:
            tiers.insert(0, tiers[0] // 2)
        if _taken(sizes, tiers, aspect) >= len(sizes) / 2:
            return {"tiers": tiers, **limits}
    return None


def _aspect(sizes: Sequence[Size]) -> int:
    """The narrowest limit, of a few, that nearly all pictures keep."""
    for limit in ASPECTS:
        kept = sum(max(size) <= limit * min(size) for size in sizes)
        if kept >= TAKEN * len(sizes):
            return limit
    return ASPECTS[-1]


def _taken(sizes: Sequence[Size], tiers: list[int], aspect: int) -> int:
    widest = Fraction(aspect)
    buckets = Buckets(tiers=tuple(tiers), min_aspect=1 / widest, max_aspect=widest)
    choice = ImageChoice({}, Image(buckets=buckets), "")
    return len(sizes) - choice.left_out(sizes).total()


def shard_size(samples: int) -> int:
    """Samples in a tar, so that the dataset has a few shards for ranks and workers to share."""
    wanted = samples / SHARDS_WANTED
    return next((size for size in SHARD_SIZES if size <= wanted), SHARD_SIZES[-1])


def t5_max_length(model: str) -> int | None:
    """Tokens that the model's own pipeline gives T5, where that is not the default of 512."""
    return 256 if "schnell" in model.lower() else None
