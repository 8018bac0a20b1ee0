"""The section `video`: with it a recipe makes a dataset of clips, under FastVideo's names."""

from fractions import Fraction
from typing import Literal

from pydantic import Field

from diffprep_assets.recipe.exact import Exact, Side
from diffprep_assets.recipe.fields import FrameCount, FrameCounts, Shapes
from diffprep_assets.recipe.section import Section


class VideoBuckets(Section):
    sizes: Shapes | None = Field(
        default=None, description="[[width, height], ...]: a clip takes the nearest aspect"
    )
    frames: FrameCounts | None = Field(
        default=None, description="frame counts; a clip takes the largest that it can fill"
    )


class Video(Section):
    workload: Literal["t2v", "i2v"] = Field(
        default="t2v", description="text-to-video, or image-to-video with the first frame's rows"
    )
    max_height: Side = Field(default=480, description="height of every clip, in pixels")
    max_width: Side = Field(default=832, description="width of every clip, in pixels")
    num_frames: FrameCount = Field(default=77, description="frames of every clip, 4k + 1")
    train_fps: Exact = Field(default=Fraction(16), description="frames a second that are taken")
    speed_factor: Exact = Field(
        default=Fraction(1), description="widens the limit on a clip's length, as in FastVideo"
    )
    video_length_tolerance_range: Exact = Field(
        default=Fraction(5), description="how many times the length needed a clip may be long"
    )
    do_temporal_sample: bool = Field(
        default=False, description="take the frames from a place drawn for each clip, not the start"
    )
    seed: int = Field(
        default=0, ge=0, lt=2**63, description="seed of that draw, with the clip's key"
    )
    samples_per_file: int = Field(default=8, ge=1, description="rows in a parquet file")
    loader: Literal["pyav", "torchcodec", "torchvision"] = Field(
        default="pyav", description="PyAV decodes; the guide's other names are taken with a note"
    )
    drop_short_ratio: Exact = Field(
        default=Fraction(1), description="must be 1: every clip that is too short is left out"
    )
    training_cfg_rate: float = Field(
        default=0.0, ge=0, description="must be 0: the trainer drops captions itself"
    )
    vae_tiling: bool = Field(
        default=False, description="encode frames in tiles: less memory, and other latents"
    )
    allow_hdr: bool = Field(
        default=False, description="take PQ and HLG clips as they are, instead of rejecting them"
    )
    buckets: VideoBuckets | None = Field(
        default=None, description="several sizes and frame counts instead of one"
    )
    clips_jsonl: bool = Field(
        default=False, description="also clips.jsonl: `video` and `prompt` of each clip of a folder"
    )

    @property
    def sizes(self) -> tuple[tuple[int, int], ...]:
        """(width, height) of every size that a clip may get."""
        own = self.buckets.sizes if self.buckets else None
        return own or ((self.max_width, self.max_height),)

    @property
    def frame_counts(self) -> tuple[int, ...]:
        """Every frame count that a clip may get, ascending."""
        own = self.buckets.frames if self.buckets else None
        return own or (self.num_frames,)
