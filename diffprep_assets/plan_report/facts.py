"""What `diffprep plan` found out, as `--json` prints it. Bytes, seconds and pixels unless named
otherwise; a share is from 0 to 1."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from diffprep_assets.shard_plan.plan import Bucket
from diffprep_assets.shard_plan.skipped import SkipSizes
from diffprep_assets.shard_plan.split_groups import MixedGroups

DISTORTED_BEYOND = 0.1
"""A picture counts as distorted where one side is scaled this much more than the other."""


@dataclass(frozen=True, slots=True)
class RejectFacts:
    """Samples left out for one reason; `first` names a few as {source_key, message}."""

    samples: int
    first: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class VerdictFacts:
    """What one rule of curation says with one reason code: of `samples`, `left_out` are in no
    shard, `skipped` ones are in a shard that was written before; `first` names a few of all."""

    rule: str
    code: str
    samples: int
    left_out: int
    skipped: int
    first: tuple[Mapping[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class SampleFacts:
    """Samples in and out: `listed == kept + rejected`, and `kept == served + skipped`. `rejects` is
    by reason code, those of curation are in `verdicts` by rule too; `splits` counts kept samples;
    `notes` counts what was noted on kept samples, `other_files` what was not read."""

    listed: int
    kept: int
    rejected: int
    rejects: Mapping[str, RejectFacts] = field(default_factory=dict)
    splits: Mapping[str, int] = field(default_factory=dict)
    skipped: int = 0
    verdicts: tuple[VerdictFacts, ...] = ()
    notes: Mapping[str, int] = field(default_factory=dict)
    other_files: Mapping[str, int] = field(default_factory=dict)

    @property
    def served(self) -> int:
        return self.kept - self.skipped


@dataclass(frozen=True, slots=True)
class BucketFacts:
    """One output size; of clips, `frames` long. `megapixels` is the mean of the kept crop before it
    is resized, `crop_loss` the mean share of pixels cut off; `upscaled` samples grow, `distorted`
    ones are squeezed by more than a tenth. `train` and `skipped` are samples, `left_over` and
    `batches` of one pass over the train split; `to_encode` samples lie in shards that are still to
    be made.
    """

    tier: int
    width: int
    height: int
    samples: int
    share: float
    megapixels: float
    crop_loss: float
    upscaled: int
    distorted: int
    shards: int = 0
    skipped: int = 0
    train: int = 0
    batches: int = 0
    left_over: int = 0
    to_encode: int = 0
    frames: int = 0

    @property
    def bucket(self) -> Bucket:
        return Bucket(self.tier, self.width, self.height, self.frames)

    @property
    def size(self) -> str:
        return self.bucket.size

    @property
    def name(self) -> str:
        return f"{self.size} in tier {self.tier}"


@dataclass(frozen=True, slots=True)
class PlanShape:
    """Partitions of the plan, by what they hold."""

    parts: int
    shards: int
    train_shards: int
    generation: int


@dataclass(frozen=True, slots=True)
class LoadingFacts:
    """How energon would read one pass of train: `ranks` x `workers` streams (no worker counts as
    one), each making batches of `batch_size` within a bucket; `left_over` of the `samples`, which
    are those that are not skipped, fill none."""

    batch_size: int
    ranks: int
    workers: int
    samples: int
    batches: int
    left_over: int

    @property
    def streams(self) -> int:
        return self.ranks * max(1, self.workers)


@dataclass(frozen=True, slots=True)
class TokenFacts:
    """Lengths of the counted captions in one text encoder's tokens; `truncated` of them are longer
    than its `limit`."""

    limit: int
    median: int
    p95: int
    p99: int
    longest: int
    truncated: int
    truncated_share: float


@dataclass(frozen=True, slots=True)
class LengthChoice:
    """A round `t5_max_length` that cuts off fewer than 1% of the captions. `bytes_saved` is of the
    whole output against the recipe's length; negative where it is longer."""

    t5_max_length: int
    truncated_share: float
    bytes_saved: int


@dataclass(frozen=True, slots=True)
class CaptionFacts:
    """Token lengths by encoder over `counted` of `samples` captions, drawn by a fixed seed.

    `repeated_share` of the samples have a caption that another sample has too; `most_common` is on
    `most_common_samples` of them. `repeats_exact` is False where both are estimates."""

    samples: int
    counted: int = 0
    empty: int = 0
    repeated_share: float = 0.0
    most_common: str | None = None
    most_common_samples: int = 0
    repeats_exact: bool = True
    tokens: Mapping[str, TokenFacts] = field(default_factory=dict)
    better_length: LengthChoice | None = None


@dataclass(frozen=True, slots=True)
class ClipFacts:
    """Lengths in seconds of all `clips` that could be opened, kept or not.

    A clip is kept from `shortest_s`, the `fewest_frames` of a bucket at `train_fps`, to `limit_s`.
    `most_fill` frames, a count that a bucket may have, are filled by 95% of the clips. Kept clips
    have `frames_found` frames at `train_fps`, of which `frames_taken` are in samples; those of a
    clip with several captions count with each.
    """

    clips: int
    p5_s: float
    median_s: float
    p95_s: float
    longest_s: float
    train_fps: float
    fewest_frames: int
    most_fill: int
    shortest_s: float
    limit_s: float
    frames_found: int
    frames_taken: int

    @property
    def frames_lost(self) -> int:
        return self.frames_found - self.frames_taken


@dataclass(frozen=True, slots=True)
class OutputSize:
    """Bytes of one output format: of its shard files, and of what lies beside them. Those of stored
    pictures are estimated from `pictures` that were stored for a try; from a rule of thumb where
    that is 0. None: the format stores none, and its sizes follow from the encoders' configs."""

    format: str
    folder: str
    shards: int
    metadata: int
    mean_shard: int
    pictures: int | None = None

    @property
    def bytes(self) -> int:
        return self.shards + self.metadata


@dataclass(frozen=True, slots=True)
class SizeFacts:
    """Bytes of the whole dataset. Intermediates are the row files of latents, text and first
    frames, removed shard by shard once in a finished one, unless `kept`."""

    outputs: tuple[OutputSize, ...]
    latents: int
    text: int
    kept: bool
    first_frames: int = 0

    @property
    def output(self) -> int:
        return sum(output.bytes for output in self.outputs)

    @property
    def intermediates(self) -> int:
        return self.latents + self.text + self.first_frames


@dataclass(frozen=True, slots=True)
class DiskFacts:
    """A folder's filesystem: what is free there, and what the run still needs at its fullest."""

    folder: str
    holds: str
    free: int
    needed: int


@dataclass(frozen=True, slots=True)
class StageTime:
    """One stage by the probe: `seconds` for what is still to do, with `workers` side by side;
    `whole_seconds` for the whole dataset. `timed` samples took `timed_seconds` on one worker."""

    seconds: float
    whole_seconds: float
    load_seconds: float
    timed: int
    timed_seconds: float
    workers: int


@dataclass(frozen=True, slots=True)
class ProbeFacts:
    """A few batches on `device`, and a few pictures stored on one core. `skipped` says why nothing
    was timed, `failed` why it broke."""

    device: str | None = None
    batch_size: int | None = None
    batch_size_held: int | None = None
    stages: Mapping[str, StageTime] = field(default_factory=dict)
    peak_memory: int | None = None
    memory_total: int | None = None
    rejected: int = 0
    skipped: str | None = None
    failed: str | None = None

    @property
    def seconds(self) -> float:
        return sum(stage.seconds for stage in self.stages.values())


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """One encoder: where it comes from, and what is still to be fetched of it."""

    role: str
    reference: str
    kind: str
    revision: str
    download: int


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """All of it. `models_error` says why the encoders cannot be had; what needs them is then None
    or empty. `seconds` are of the stages that this plan ran."""

    dataset: str
    recipe_hash: str
    source: str
    output_dir: str
    formats: tuple[str, ...]
    sizing: str
    val_share: float
    samples: SampleFacts
    buckets: tuple[BucketFacts, ...]
    shape: PlanShape
    loading: LoadingFacts
    captions: CaptionFacts
    skips: SkipSizes = field(default=SkipSizes(0, 0))
    mixed: MixedGroups = field(default=MixedGroups())
    disks: tuple[DiskFacts, ...] = ()
    sizes: SizeFacts | None = None
    probe: ProbeFacts = ProbeFacts()
    models: tuple[ModelFacts, ...] = ()
    models_error: str | None = None
    clips: ClipFacts | None = None
    seconds: Mapping[str, float] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The facts with the sums that people read."""
        content = asdict(self)
        content["samples"]["served"] = self.samples.served
        content["loading"]["streams"] = self.loading.streams
        if self.sizes is not None:
            content["sizes"]["output"] = self.sizes.output
            content["sizes"]["intermediates"] = self.sizes.intermediates
            for shown, output in zip(content["sizes"]["outputs"], self.sizes.outputs, strict=True):
                shown["bytes"] = output.bytes
        if self.clips is not None:
            content["clips"]["frames_lost"] = self.clips.frames_lost
        content["probe"]["seconds"] = self.probe.seconds
        return content
