"""Each warning fires where it should, alone, and nowhere else."""

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from diffprep_assets.plan_report.facts import (
    BucketFacts,
    CaptionFacts,
    ClipFacts,
    DiskFacts,
    LengthChoice,
    LoadingFacts,
    OutputSize,
    PlanFacts,
    PlanShape,
    ProbeFacts,
    RejectFacts,
    SampleFacts,
    SizeFacts,
    TokenFacts,
)
from diffprep_assets.plan_report.plan_warnings import WARNINGS, plan_warnings
from diffprep_assets.shard_plan.skipped import SkipSizes
from diffprep_assets.shard_plan.split_groups import MixedGroups

BUCKET = BucketFacts(512, 512, 512, 980, 1.0, 1.2, 0.04, 5, 0, shards=10, train=900, batches=110)
CALM = PlanFacts(
    dataset="photos",
    recipe_hash="0" * 32,
    source="directory photos",
    output_dir="out",
    formats=("energon",),
    sizing="image_size 512, cropped to the square",
    val_share=0.05,
    samples=SampleFacts(
        1000, 980, 20, {"too_small": RejectFacts(20)}, {"train": 900, "val": 40, "test": 40}
    ),
    buckets=(BUCKET,),
    shape=PlanShape(parts=1, shards=10, train_shards=8, generation=0),
    loading=LoadingFacts(8, 2, 4, samples=900, batches=110, left_over=20),
    captions=CaptionFacts(
        980,
        980,
        repeated_share=0.005,
        most_common="a cat",
        most_common_samples=5,
        tokens={"t5": TokenFacts(512, 30, 60, 80, 700, 9, 0.009)},
    ),
    disks=(DiskFacts("/data", "work and output", free=10**12, needed=10**9),),
    sizes=SizeFacts(
        (OutputSize("energon", "out", 10**9, 10**6, mean_shard=10**8),), 10**8, 9 * 10**8, False
    ),
    probe=ProbeFacts("cpu", batch_size=8, batch_size_held=8),
)


def with_bucket(**changes: object) -> PlanFacts:
    return replace(CALM, buckets=(replace(BUCKET, **changes),))


def with_captions(**changes: object) -> PlanFacts:
    return replace(CALM, captions=replace(CALM.captions, **changes))


def with_tokens(share: float) -> PlanFacts:
    tokens = replace(CALM.captions.tokens["t5"], truncated_share=share)
    return with_captions(tokens={"t5": tokens}, better_length=LengthChoice(640, 0.001, -9))


def with_shape(**changes: int) -> PlanFacts:
    return replace(CALM, shape=replace(CALM.shape, **changes))


def with_tars(size: int, shards: int) -> PlanFacts:
    return with_output("energon", size, shards)


def with_output(name: str, size: int, shards: int) -> PlanFacts:
    assert CALM.sizes is not None
    output = OutputSize(name, "out", size * shards, 0, mean_shard=size)
    outputs = (*CALM.sizes.outputs, output)
    return replace(with_shape(shards=shards), sizes=replace(CALM.sizes, outputs=outputs))


def with_rejects(kept: int, rejected: int) -> PlanFacts:
    samples = replace(
        CALM.samples, kept=kept, rejected=rejected, rejects={"no_caption": RejectFacts(rejected)}
    )
    return replace(CALM, samples=samples)


def with_disk(needed: int) -> PlanFacts:
    return replace(CALM, disks=(replace(CALM.disks[0], needed=needed),))


def with_splits(val: int, share: float) -> PlanFacts:
    samples = replace(CALM.samples, splits={"train": 980 - val, "val": val, "test": 0})
    return replace(CALM, samples=samples, val_share=share)


def with_left_over(samples: int) -> PlanFacts:
    return replace(CALM, loading=replace(CALM.loading, left_over=samples))


def with_probe(**changes: object) -> PlanFacts:
    return replace(CALM, probe=replace(CALM.probe, **changes))


def with_skips(**changes: Any) -> PlanFacts:
    return replace(CALM, skips=SkipSizes(**{"samples": 980, "run_split": "train", **changes}))


def with_mixed(groups: int) -> PlanFacts:
    return replace(CALM, mixed=MixedGroups(groups, {"key:7": ("test", "train")}))


def with_clips(*, short: int = 0, found: int = 900_000) -> PlanFacts:
    """A plan of clips for FastVideo of which some are too short."""
    clips = ClipFacts(980, 5.0, 6.0, 9.0, 20.0, 16.0, 77, 61, 4.8125, 24.0625, found, 500_000)
    rejects = {"video_too_short": RejectFacts(short)} if short else {}
    samples = replace(CALM.samples, rejected=max(20, short), rejects=rejects)
    return replace(CALM, formats=("fastvideo",), clips=clips, samples=samples)


FIRES = {
    "W001": [(with_bucket(distorted=1), "1 of 980 samples (0.1%) are squeezed")],
    "W002": [
        (with_bucket(train=15), "512x512 in tier 512 (15): fewer train samples than one global")
    ],
    "W003": [(with_shape(train_shards=7), "7 shards, and 2 ranks x 4 workers")],
    "W004": [(with_captions(repeated_share=0.02), "2.0% of the samples share their caption")],
    "W005": [
        (with_splits(0, 0.0001), "rounds to none"),
        (with_splits(0, 0.0), "train_split"),
    ],
    "W006": [
        (with_shape(shards=80_000), "80,000 shards"),
        (with_shape(parts=90_000), "90,000 parts"),
    ],
    "W007": [(with_disk(2 * 10**12), "2.0 TB needed, 1.0 TB free")],
    "W008": [(with_tokens(0.01), "1.0% of the captions are longer")],
    "W009": [(with_bucket(upscaled=99), "99 of 980 samples (10.1%) are enlarged")],
    "W010": [(with_rejects(940, 60), "60 of 1,000 samples (6.0%) are left out, most as no_cap")],
    "W011": [(replace(CALM, models_error="gated"), "gated")],
    "W012": [(with_bucket(crop_loss=0.3), "512x512 in tier 512 (30.0%)")],
    "W013": [
        (with_tars(7_000_000, 101), "101 energon shards of 7.0 MB"),
        (with_tars(5 * 10**9, 10), "energon shards of 5.0 GB"),
        (with_output("mds", 4_300_000_000, 10), "mds shards of 4.3 GB on average: an MDS shard"),
    ],
    "W014": [(with_probe(batch_size_held=4), "a batch of 8 does not fit on cpu; 4 does")],
    "W015": [(with_left_over(46), "46 of 900 samples (5.1%) fill no batch")],
    "W016": [(with_captions(empty=50), "50 of 980 samples (5.1%) have an empty caption")],
    "W017": [(with_probe(failed="the worker died"), "the worker died")],
    "W018": [
        (with_skips(skipped=9, longest_run=9, starved_readers=64), "from 64 data loader workers")
    ],
    "W019": [(with_skips(skipped=99), "99 of 980 samples (10.1%) are written and skipped")],
    "W020": [
        (with_mixed(1), "1 group of samples that belong together"),
        (with_mixed(4), "4 groups of samples that belong together had samples in several splits"),
    ],
    "W021": [(with_clips(short=60), "60 of 1,000 samples (6.0%) have fewer than 77 frames at 16")],
    "W022": [(with_clips(found=2_000_000), "1,500,000 of 2,000,000 frames (75.0%) of kept clips")],
}
CALM_TOO = [
    with_skips(skipped=98, longest_run=98, starved_readers=65),
    with_bucket(train=16),
    with_clips(short=50),
    with_clips(found=1_000_000),
    with_captions(repeated_share=0.01),
    with_splits(1, 0.0),
    with_shape(shards=79_999, parts=79_999),
    with_disk(10**12),
    with_tokens(0.0099),
    with_bucket(upscaled=98),
    with_rejects(950, 50),
    with_bucket(crop_loss=0.25),
    with_tars(7_000_000, 100),
    with_tars(4 * 10**9, 10),
    with_left_over(45),
    with_captions(empty=49),
    replace(CALM, sizes=None),
]


def test_a_good_plan_has_no_warning():
    assert plan_warnings(CALM) == []


@pytest.mark.parametrize("facts", CALM_TOO)
def test_a_plan_at_a_threshold_has_none_either(facts: PlanFacts):
    assert plan_warnings(facts) == []


def test_every_number_is_tested():
    assert list(FIRES) == list(WARNINGS)


@pytest.mark.parametrize(
    ("code", "facts", "words"), [(code, *case) for code, cases in FIRES.items() for case in cases]
)
def test_each_fires_alone_with_its_numbers(code: str, facts: PlanFacts, words: str):
    (warning,) = plan_warnings(facts)
    assert (warning.code, warning.title) == (code, WARNINGS[code][0])
    assert words in warning.message


def test_every_number_is_explained_under_its_title():
    page = (Path(__file__).parents[3] / "docs" / "warnings.md").read_text("utf-8")
    headings = re.findall(r"^## (W\d{3}) (.*)$", page, re.MULTILINE)
    assert headings == [(code, title) for code, (title, _) in WARNINGS.items()]


def test_many_buckets_are_named_by_the_first_few():
    tiny = tuple(replace(BUCKET, width=16 * n, train=1) for n in range(1, 9))
    (warning,) = plan_warnings(replace(CALM, buckets=tiny))
    assert "and 5 more buckets" in warning.message
