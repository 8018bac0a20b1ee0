"""The section `curate`: which samples are left out, and which must stay together."""

from typing import Literal

from pydantic import Field

from diffprep_assets.recipe.fields import (
    Banned,
    KeyPath,
    LengthRange,
    LocalFiles,
    LongAspect,
    Where,
)
from diffprep_assets.recipe.section import Section


class Dedup(Section):
    method: Literal["phash", "digest"] = Field(
        default="phash", description="phash: pictures that look alike; digest: equal files only"
    )
    max_distance: int = Field(
        default=4, ge=0, le=4, description="phash: how many of the hash's 64 bits may differ"
    )
    replace: bool = Field(
        default=False,
        description="a larger copy that comes later takes the place of one that is written",
    )


class Filters(Section):
    min_side: int | None = Field(
        default=None, ge=1, description="shorter side at least this, in pixels"
    )
    max_aspect: LongAspect | None = Field(
        default=None, description="longer side over shorter side at most this"
    )
    caption_length: LengthRange | None = Field(
        default=None, description="[least, most] characters of a caption; either may be null"
    )
    banned: Banned | None = Field(
        default=None, description="words that no caption may hold, or /patterns/ between slashes"
    )
    where: Where | None = Field(
        default=None, description="a condition over the source's own columns, like `score >= 5`"
    )


class Curate(Section):
    dedup: Dedup | None = Field(default=None, description="keep one picture of those that repeat")
    filters: Filters = Field(default_factory=Filters, description="rules that a sample must meet")
    group_key: KeyPath | None = Field(
        default=None, description="field of the source; samples that share its value share a split"
    )
    skip_lists: LocalFiles | None = Field(
        default=None, description="files of source keys, sample ids or digests to leave out"
    )
