"""The sections `output` and `mds`: what is written, where, and in which formats."""

from fractions import Fraction
from typing import Literal, NamedTuple

from pydantic import Field, model_validator

from diffprep_assets.recipe.exact import Share
from diffprep_assets.recipe.fields import (
    Formats,
    LicenceName,
    LocalFolder,
    ShardSize,
    TrainShare,
    Uncompressed,
    Weights,
)
from diffprep_assets.recipe.section import Section


class Shares(NamedTuple):
    """How much of the dataset each split gets; exact, and 1 together."""

    train: Fraction
    val: Fraction
    test: Fraction


class Splits(Section):
    train: Share = Field(description="share of the samples, from 0 to 1")
    val: Share = Field(default=Fraction(0), description="share of the samples, from 0 to 1")
    test: Share = Field(default=Fraction(0), description="share of the samples, from 0 to 1")

    @model_validator(mode="after")
    def _whole(self) -> "Splits":
        total = self.train + self.val + self.test
        if total != 1:
            raise ValueError(f"must sum to 1; train + val + test is {float(total):g}")
        if self.train == 0:
            raise ValueError("must leave something for train; a dataset's train is never empty")
        return self


class Output(Section):
    output_dir: LocalFolder = Field(
        description="the folder that the trainer reads; nothing else in it"
    )
    formats: Formats = Field(
        default=("energon",),
        description="what is written; the first lies in output_dir, others in a folder of theirs",
    )
    layout: Literal["one", "per_bucket"] = Field(
        default="one",
        description="energon, raw: one dataset, or each bucket's folder a dataset of its own",
    )
    image_format: Literal["jpg", "png", "webp"] = Field(
        default="jpg", description="raw, mds: how pictures are stored"
    )
    image_quality: int | None = Field(
        default=None,
        ge=1,
        le=100,
        description="raw, mds: quality of jpg and webp; null is 95 for raw, 92 for mds",
    )
    shard_size: ShardSize = Field(
        default=1000, description="samples in a shard; with buckets also one for each tier"
    )
    max_samples: int | None = Field(
        default=None, ge=1, description="take only the first this many samples, in source order"
    )
    shuffle_seed: int | None = Field(
        default=None,
        ge=0,
        description="deal samples to shards in an order seeded by this; null keeps it",
    )
    train_split: TrainShare = Field(
        default=Fraction(1), description="share of train; the rest is halved between val and test"
    )
    splits: Splits | None = Field(
        default=None, description="the three shares, instead of train_split"
    )
    split_seed: int = Field(
        default=0, ge=0, description="seed of the order in which splits are filled"
    )
    resplit: bool = Field(
        default=False,
        description="other shares, split_seed or group_key deal every sample's split anew",
    )
    license: LicenceName | None = Field(
        default=None, description="the dataset's licence as the Hub names it, for the card"
    )
    finalize: bool = Field(
        default=True, description="write index and metadata; false publishes tars only"
    )
    intermediates: Literal["prune", "keep"] = Field(
        default="prune",
        description="prune removes latents and text once they are in a finished tar",
    )
    max_reject_rate: float = Field(
        default=0.05,
        ge=0,
        le=1,
        description="stop encoding when a larger share is rejected, after at least 200 samples",
    )
    compress: Uncompressed = Field(
        default=False, description="must be false: a compressed tar cannot be indexed"
    )

    @property
    def shares(self) -> Shares:
        """The exact shares of train, val and test."""
        if self.splits:
            return Shares(self.splits.train, self.splits.val, self.splits.test)
        half = (1 - self.train_split) / 2
        return Shares(self.train_split, half, half)

    def shard_size_of(self, tier: int) -> int:
        """Samples in a shard of this tier."""
        return self.shard_size[tier] if isinstance(self.shard_size, dict) else self.shard_size


class Mds(Section):
    latents: bool = Field(
        default=False, description="also `img_latent`: the posterior's mean and std, unscaled"
    )
    text_latents: bool = Field(
        default=False, description="also each text encoder's output, as `latent_caption_<tower>`"
    )
    caption_columns: Weights | None = Field(
        default=None,
        description="further caption columns: a field of the source each, and its weight",
    )
