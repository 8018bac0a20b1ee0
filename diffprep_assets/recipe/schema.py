"""What a recipe holds: everything that decides the bytes of a dataset, and nothing else.

A key that is null counts as not written. An empty text does too, where the default is null.
"""

from collections.abc import Mapping
from fractions import Fraction
from typing import Any, Literal

from pydantic import Field, model_validator

from diffprep_assets.bucket.shapes import table_buckets
from diffprep_assets.recipe.bucket_checks import check_patches, check_table
from diffprep_assets.recipe.contradictions import contradictions, without_empty
from diffprep_assets.recipe.curation import Curate
from diffprep_assets.recipe.exact import Exact, Side, Text
from diffprep_assets.recipe.fields import (
    CronLine,
    KeyPath,
    KeyPaths,
    Shapes,
    Texts,
    Tiers,
    TokenPath,
)
from diffprep_assets.recipe.output import Mds, Output
from diffprep_assets.recipe.section import Section
from diffprep_assets.recipe.video import Video
from diffprep_assets.recipe.video_defaults import with_video_defaults
from diffprep_resources.sources.fields import DEFAULT_CAPTION_KEYS, DEFAULT_IMAGE_KEYS

ImageMode = Literal["image_size", "variable_size", "buckets"]


class Source(Section):
    type: Literal["directory", "huggingface", "webdataset"] = Field(
        description="what the pictures come from"
    )
    input_dir: Text | None = Field(
        default=None, description="directory: the folder with images/ and captions/, or both mixed"
    )
    hf_dataset: Text | None = Field(
        default=None,
        description="huggingface: owner/name on the Hub, or a local folder laid out like one",
    )
    hf_name: Text | None = Field(
        default=None, description="huggingface: configuration of the dataset"
    )
    hf_split: Text = Field(default="train", description="huggingface: split of the dataset")
    hf_revision: Text | None = Field(default=None, description="huggingface: branch, tag or commit")
    hf_data_files: Texts | None = Field(
        default=None,
        description="huggingface: patterns of the data files to take, relative to the dataset",
    )
    keep_downloads: bool = Field(
        default=True,
        description="keep what was fetched of a remote source; false removes it once published",
    )
    input_path: Text | None = Field(default=None, description="webdataset: glob of the tar files")


class DataFormat(Section):
    image_key: KeyPath | None = Field(
        default=None, description="the one field that holds the picture"
    )
    caption_key: KeyPath | None = Field(
        default=None, description="the one field that holds the caption"
    )
    image_keys: KeyPaths = Field(
        default=DEFAULT_IMAGE_KEYS, description="fields to try for the picture, in order"
    )
    caption_keys: KeyPaths = Field(
        default=DEFAULT_CAPTION_KEYS,
        description="fields to try for the caption, in order; dotted paths reach into JSON",
    )

    @property
    def image_fields(self) -> tuple[str, ...]:
        """The fields to try for the picture, in order."""
        return (self.image_key,) if self.image_key else self.image_keys

    @property
    def caption_fields(self) -> tuple[str, ...]:
        """The fields to try for the caption, in order."""
        return (self.caption_key,) if self.caption_key else self.caption_keys


class Model(Section):
    model_path: Text = Field(
        default="black-forest-labs/FLUX.1-dev",
        description="diffusers repository with all encoders: owner/name on the Hub, or a folder",
    )
    vae_path: Text | None = Field(
        default=None, description="takes the place of model_path for the VAE"
    )
    t5_path: Text | None = Field(default=None, description="takes the place of model_path for T5")
    clip_path: Text | None = Field(
        default=None, description="takes the place of model_path for CLIP"
    )
    precision: Literal["bf16", "fp16", "fp32"] = Field(
        default="bf16", description="number format of the encoders and of what is stored"
    )
    t5_max_length: int = Field(default=512, ge=1, description="tokens of a caption that T5 sees")
    vae_latent_mode: Literal["presampled", "resample"] = Field(
        default="presampled",
        description="presampled stores one draw; resample also mean and logvar for the trainer",
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="seed of the noise in presampled latents"
    )


class Buckets(Section):
    tiers: Tiers = Field(default=(512, 1024), description="resolution tiers, in pixels")
    min_aspect: Exact = Field(
        default=Fraction(1, 2), description="narrowest width / height, at most 1"
    )
    max_aspect: Exact = Field(default=Fraction(2), description="widest width / height, at least 1")
    max_upscale: Exact = Field(
        default=Fraction(4, 3), description="how much a side may grow at most"
    )
    patch: int = Field(
        default=16, ge=1, description="patches along a tier's side; shapes are made of them"
    )
    shapes: Shapes | None = Field(
        default=None, description="a table of one's own, [[width, height], ...], for the tiers"
    )

    @model_validator(mode="after")
    def _holds_the_square(self) -> "Buckets":
        if not self.min_aspect <= 1 <= self.max_aspect:
            raise ValueError("must have min_aspect of at most 1 and max_aspect of at least 1")
        return self

    @model_validator(mode="after")
    def _can_be_made(self) -> "Buckets":
        if self.shapes is None:
            check_patches(self.tiers, patches=self.patch)
        else:
            used = self.tiers if "tiers" in self.model_fields_set else ()
            check_table(
                table_buckets(self.shapes, tiers=self.tiers),
                used=used,
                min_aspect=self.min_aspect,
                max_aspect=self.max_aspect,
            )
        return self


class Image(Section):
    image_size: Side = Field(default=1024, description="side of the square, in pixels")
    center_crop: bool = Field(
        default=False, description="crop to the square first; false squeezes the picture into it"
    )
    variable_size: bool = Field(
        default=False,
        description="keep the aspect ratio: longest side max_size, sides multiples of 16",
    )
    max_size: Side = Field(default=1024, description="longest side with variable_size, in pixels")
    buckets: Buckets | None = Field(
        default=None, description="thirteen shapes for each resolution tier"
    )
    background: str = Field(
        default="#ffffff",
        pattern=r"^#[0-9a-fA-F]{6}$",
        description="colour under transparent pictures, as '#rrggbb'",
    )
    min_side: int = Field(
        default=16, ge=1, description="reject pictures with a shorter side, in pixels"
    )
    max_pixels: int = Field(
        default=150_000_000, ge=256, description="reject pictures with more pixels"
    )

    @property
    def mode(self) -> ImageMode:
        """Which of the three ways to size a picture this recipe takes."""
        if self.buckets:
            return "buckets"
        return "variable_size" if self.variable_size else "image_size"


class Captions(Section):
    choose: Literal["first", "all", "random"] = Field(
        default="first", description="which of several captions; all makes one sample for each"
    )
    allow_empty: bool = Field(default=False, description="keep pictures whose caption is empty")
    clean: Literal["none", "diffusers"] = Field(
        default="none",
        description="diffusers: mend and tidy a caption for the encoder as its pipelines do",
    )
    lines: Literal["whole", "each"] = Field(
        default="whole", description="a text of several lines is one caption, or each line is one"
    )


class Auth(Section):
    hf_token_file: TokenPath | None = Field(
        default=None, description="file that holds a Hub token, with mode 600 or 400"
    )


class Recipe(Section):
    source: Source = Field(description="where pictures and captions come from")
    data_format: DataFormat = Field(
        default_factory=DataFormat, description="which fields hold picture and caption"
    )
    output: Output = Field(description="what is written, and where")
    model: Model = Field(default_factory=Model, description="the encoders")
    image: Image = Field(default_factory=Image, description="the size of the encoded pictures")
    captions: Captions = Field(default_factory=Captions, description="how captions are taken")
    curate: Curate = Field(default_factory=Curate, description="which samples are left out")
    video: Video | None = Field(default=None, description="a dataset of clips, not of pictures")
    mds: Mds = Field(default_factory=Mds, description="further columns of an MDS dataset")
    auth: Auth = Field(default_factory=Auth, description="access to the Hub")
    schedule: CronLine | None = Field(
        default=None, description="cron line on which the dataset is brought up to date"
    )

    @model_validator(mode="before")
    @classmethod
    def _video_has_other_defaults(cls, data: Any) -> Any:
        return with_video_defaults(data) if isinstance(data, Mapping) else data

    @model_validator(mode="after")
    def _no_contradictions(self) -> "Recipe":
        problems = contradictions(without_empty(self.model_dump(exclude_unset=True)))
        if problems:
            raise ValueError("; ".join(problem.sentence for problem in problems))
        return self
