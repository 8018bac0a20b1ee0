"""Types of a recipe's fields that need more than a Python type: what is allowed, in words."""

import re
from fractions import Fraction
from typing import Annotated

from pydantic import AfterValidator, BeforeValidator, Field

from diffprep_assets.recipe.cron import check_cron
from diffprep_assets.recipe.exact import TIER_STEP, Share, Text, nearest_multiple
from diffprep_assets.recipe.folders import is_remote

MAX_TIER = 8192


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
