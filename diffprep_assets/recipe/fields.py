"""Types of a recipe's fields that need more than a Python type: what is allowed, in words."""

import re
from fractions import Fraction
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from diffprep_assets.curate.banned import is_pattern
from diffprep_assets.curate.where import check_where
from diffprep_assets.recipe.cron import check_cron
from diffprep_assets.recipe.exact import (
    MAX_SIDE,
    SIDE_STEP,
    TIER_STEP,
    Exact,
    Share,
    Text,
    nearest_multiple,
)
from diffprep_assets.recipe.folders import is_remote

MAX_TIER = 8192
FORMATS = ("energon", "raw", "mds", "fastvideo", "energon_video")


def _as_tuple(value: object) -> object:
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _tiers(values: tuple[int, ...]) -> tuple[int, ...]:
    if not values:
        raise ValueError("must list at least one tier")
    for value in values:
        nearest = nearest_multiple(value, step=TIER_STEP, largest=MAX_TIER)
        if value != nearest:
            raise ValueError(
                f"must hold multiples of {TIER_STEP} from {TIER_STEP} to {MAX_TIER}, so that every "
                f"bucket's sides are multiples of 16; for {value} the nearest is {nearest}"
            )
    if len(set(values)) < len(values):
        raise ValueError("must not name a tier twice")
    return tuple(sorted(values))


def _shard_size(value: object) -> object:
    allowed = "must be a whole number of at least 1, or one for each tier like {512: 2000}"
    if isinstance(value, dict):
        sizes = {_tier_key(key): size for key, size in value.items()}
        if sizes and all(map(_is_count, [*sizes, *sizes.values()])):
            return sizes
    elif _is_count(value):
        return value
    raise ValueError(allowed)


def _tier_key(key: object) -> object:
    """The key itself, as a number where JSON has made a text of it."""
    return int(key) if isinstance(key, str) and re.fullmatch(r"[0-9]{1,9}", key) else key


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _not_compressed(value: bool) -> bool:
    if value:
        raise ValueError("must be false; a compressed tar cannot be indexed")
    return value


def _local(value: str) -> str:
    if is_remote(value):
        raise ValueError("must be a local or mounted folder")
    return value


def _key_path(value: str) -> str:
    if not all(part.strip() for part in value.split(".")):
        raise ValueError("must be a field name, or a dotted path into JSON like json.prompt")
    return value


def _licence(value: str) -> str:
    if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", value):
        raise ValueError(
            "must be a licence as the Hub names it, in small letters without spaces, like "
            "apache-2.0, cc-by-4.0 or other"
        )
    return value


def _token_path(value: str) -> str:
    if value.startswith("hf_") and "/" not in value and "." not in value:
        raise ValueError("must be the path of a file that holds the token, never the token itself")
    return value


def _train_share(value: Fraction) -> Fraction:
    if value == 0:
        raise ValueError("must be more than 0: a dataset's train is never empty")
    return value


def _formats(value: object) -> object:
    values = _as_tuple(value)
    if not isinstance(values, tuple) or not values or any(value not in FORMATS for value in values):
        raise ValueError(f"must list formats, of {', '.join(FORMATS)}")
    if len(set(values)) < len(values):
        raise ValueError("must not name a format twice")
    return values


def _weights(values: dict[str, float]) -> dict[str, float]:
    for name, weight in values.items():
        if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_.]*", name):
            raise ValueError(f"must name fields of letters, digits, `_` and `.`, got {name!r}")
        if not 0 < weight < 1e6:
            raise ValueError(f"must give each field a weight of more than 0, got {weight:g}")
    if not values:
        raise ValueError("must name at least one field")
    return values


def _length_range(value: tuple[int | None, int | None]) -> tuple[int | None, int | None]:
    least, most = value
    if least is not None and most is not None and least > most:
        raise ValueError(f"must have the smaller number first, got [{least}, {most}]")
    return value


def _long_aspect(value: Fraction) -> Fraction:
    if value < 1:
        raise ValueError("must be at least 1: it is the longer side over the shorter")
    return value


def _banned(values: tuple[str, ...]) -> tuple[str, ...]:
    for value in values:
        if not value.strip():
            raise ValueError("must hold no empty word")
        if is_pattern(value):
            try:
                re.compile(value[1:-1])
            except re.error as error:
                raise ValueError(f"holds a pattern that is none: {value}: {error}") from error
    return values


def _where(value: str) -> str:
    check_where(value)
    return value


def _shapes(values: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
    for width, height in values:
        for side in (width, height):
            nearest = nearest_multiple(side, step=SIDE_STEP, largest=MAX_SIDE)
            if side != nearest:
                raise ValueError(
                    f"must hold sides that are multiples of {SIDE_STEP} from {SIDE_STEP} to "
                    f"{MAX_SIDE}; for {side} the nearest is {nearest}"
                )
    if len(set(values)) < len(values):
        raise ValueError("must not name a shape twice")
    return tuple(sorted(values))


def _frame_count(value: int) -> int:
    nearest = max(1, (value + 1) // 4 * 4 + 1)
    if value != nearest:
        raise ValueError(
            f"must be a multiple of 4 and one more: the VAE drops what is beyond; for {value} "
            f"the nearest is {nearest}"
        )
    return value


def _frame_counts(values: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(values)) < len(values):
        raise ValueError("must not name a frame count twice")
    return tuple(sorted(values))


def _as_pairs(value: object) -> object:
    if not isinstance(value, list | tuple):
        return value
    pairs = [_as_tuple(pair) for pair in value]
    if not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise ValueError("must be a list of [width, height], in pixels")
    return tuple(pairs)


KeyPath = Annotated[Text, AfterValidator(_key_path)]
KeyPaths = Annotated[tuple[KeyPath, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Tiers = Annotated[tuple[int, ...], BeforeValidator(_as_tuple), AfterValidator(_tiers)]
ShardSize = Annotated[int | dict[int, int], BeforeValidator(_shard_size)]
Uncompressed = Annotated[bool, AfterValidator(_not_compressed)]
TrainShare = Annotated[Share, AfterValidator(_train_share)]
LocalFolder = Annotated[Text, AfterValidator(_local)]
LicenceName = Annotated[Text, AfterValidator(_licence)]
TokenPath = Annotated[Text, AfterValidator(_token_path)]
CronLine = Annotated[Text, AfterValidator(check_cron)]
Formats = Annotated[
    tuple[Literal["energon", "raw", "mds", "fastvideo", "energon_video"], ...],
    BeforeValidator(_formats),
]
Weights = Annotated[dict[str, Annotated[float, Field(strict=False)]], AfterValidator(_weights)]
Length = Annotated[int, Field(ge=0)]
LengthRange = Annotated[
    tuple[Length | None, Length | None], BeforeValidator(_as_tuple), AfterValidator(_length_range)
]
LongAspect = Annotated[Exact, AfterValidator(_long_aspect)]
Banned = Annotated[Texts, AfterValidator(_banned)]
Where = Annotated[Text, AfterValidator(_where)]
LocalFiles = Annotated[tuple[LocalFolder, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Shapes = Annotated[
    tuple[tuple[int, int], ...],
    BeforeValidator(_as_pairs),
    Field(min_length=1),
    AfterValidator(_shapes),
]
FrameCount = Annotated[int, AfterValidator(_frame_count)]
FrameCounts = Annotated[
    tuple[FrameCount, ...],
    BeforeValidator(_as_tuple),
    Field(min_length=1),
    AfterValidator(_frame_counts),
]
