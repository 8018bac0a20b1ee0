"""What is worth a second look before encoding: each with a number, explained in docs/warnings.md.

A warning never changes an exit code. A number, once given, keeps its meaning.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from diffprep_assets.plan_report.clip_warnings import (
    REJECTED_BEYOND,
    fewer_buckets,
    frames_lost,
    lower_resolution,
    nearer_sizes,
    reads_rows,
    rows_left_over,
    too_short,
)
from diffprep_assets.plan_report.facts import DISTORTED_BEYOND, BucketFacts, PlanFacts
from diffprep_assets.plan_report.shard_sizes import shard_size_warning
from diffprep_assets.plan_report.tokens import CUT_AT_MOST
from diffprep_assets.plan_report.warning_words import in_short, of_samples
from diffprep_assets.quantities import bytes_text, share_text
from diffprep_assets.shard_plan.skipped import run_warning, share_warning
from diffprep_assets.shard_plan.split_groups import mixed_warning

MOST_PARTITIONS = 100_000
"""Dagster's advice for one asset."""
NEAR = 0.8
REPEATED_BEYOND = 0.01
UPSCALED_BEYOND = 0.1
CROPPED_BEYOND = 0.25
LEFT_OVER_BEYOND = 0.05
EMPTY_BEYOND = 0.05
NAMED = 3


@dataclass(frozen=True, slots=True)
class PlanWarning:
    """One warning: `code` such as W001, `title` the same each time, `message` with the numbers and
    the way out."""

    code: str
    title: str
    message: str


def plan_warnings(facts: PlanFacts) -> list[PlanWarning]:
    """All that apply, by number."""
    found = []
    for code, (title, check) in WARNINGS.items():
        message = check(facts)
        if message is not None:
            found.append(PlanWarning(code, title, message))
    return found


def _distorting(facts: PlanFacts) -> str | None:
    distorted = sum(bucket.distorted for bucket in facts.buckets)
    if not distorted:
        return None
    return (
        f"{of_samples(distorted, facts.samples.kept)} are squeezed by more than "
        f"{DISTORTED_BEYOND:.0%} ({facts.sizing}). Set image.center_crop: true, or "
        f"image.buckets, which keep proportions"
    )


def _tiny_buckets(facts: PlanFacts) -> str | None:
    loading = facts.loading
    wanted = loading.batch_size * loading.ranks
    tiny = [bucket for bucket in facts.buckets if 0 < bucket.train < wanted]
    if not tiny:
        return None
    return (
        f"{_named(tiny, lambda bucket: f'{bucket.name} ({bucket.train:,})')}: fewer train samples "
        f"than one global batch, {loading.batch_size} x {loading.ranks} = {wanted:,}. "
        f"{fewer_buckets(facts)}, or train with smaller batches"
    )


def _few_shards(facts: PlanFacts) -> str | None:
    if reads_rows(facts):
        return None
    shards, streams = facts.shape.train_shards, facts.loading.streams
    if shards >= streams:
        return None
    return (
        f"train has {shards:,} shards, and {facts.loading.ranks} ranks x "
        f"{max(1, facts.loading.workers)} workers read at once: neighbours share a shard, and see "
        f"little variety. output.shard_size: "
        f"{max(1, facts.loading.samples // (2 * streams))} would make about two for each"
    )


def _repeated_captions(facts: PlanFacts) -> str | None:
    captions = facts.captions
    if captions.repeated_share <= REPEATED_BEYOND:
        return None
    about = "" if captions.repeats_exact else "about "
    most = f'; the commonest, "{in_short(captions.most_common)}", {captions.most_common_samples:,}'
    return (
        f"{about}{share_text(captions.repeated_share)} of the samples share their caption with "
        f"another{most if captions.most_common is not None else ''}. The model learns little from "
        f"a caption that says the same of many pictures"
    )


def _empty_val(facts: PlanFacts) -> str | None:
    if facts.samples.splits.get("val", 0):
        return None
    if facts.val_share:
        return (
            f"the val split is empty: {share_text(facts.val_share)} of "
            f"{facts.samples.kept:,} samples rounds to none. Raise its share in output.splits"
        )
    return (
        "the val split is empty: all samples are for training. output.train_split: 0.98 keeps 1% "
        "each for val and test, and re-encodes nothing when set later, but touches new samples only"
    )


def _many_partitions(facts: PlanFacts) -> str | None:
    shape = facts.shape
    name, most = max((("shards", shape.shards), ("parts", shape.parts)), key=lambda pair: pair[1])
    if most < NEAR * MOST_PARTITIONS:
        return None
    way_out = "raise output.shard_size" if name == "shards" else "put more samples in each file"
    return (
        f"{most:,} {name}; Dagster advises at most {MOST_PARTITIONS:,} partitions of an asset, and "
        f"its pages slow down near that: {way_out}"
    )


def _full_disk(facts: PlanFacts) -> str | None:
    short = [disk for disk in facts.disks if disk.needed > disk.free]
    if not short:
        return None
    words = (
        f"{disk.folder}: {bytes_text(disk.needed)} needed, {bytes_text(disk.free)} free"
        for disk in short
    )
    return f"{'; '.join(words)}. Free some, or move storage_root or output.output_dir"


def _truncated(facts: PlanFacts) -> str | None:
    tokens = facts.captions.tokens.get("t5")
    if tokens is None or tokens.truncated_share < CUT_AT_MOST:
        return None
    better, way_out = facts.captions.better_length, ""
    if better is not None:
        way_out = f" ({better.t5_max_length} would cut {share_text(better.truncated_share)})"
    return (
        f"T5 sees {tokens.limit} tokens, and {share_text(tokens.truncated_share)} of the captions "
        f"are longer (95% have at most {tokens.p95:,}, the longest has {tokens.longest:,}): raise "
        f"model.t5_max_length as far as the model takes it{way_out}, or shorten the captions"
    )


def _upscaled(facts: PlanFacts) -> str | None:
    upscaled = sum(bucket.upscaled for bucket in facts.buckets)
    if upscaled <= UPSCALED_BEYOND * facts.samples.kept:
        return None
    return (
        f"{of_samples(upscaled, facts.samples.kept)} are enlarged to fill their size, and teach "
        f"blur: {lower_resolution(facts)}"
    )


def _many_rejects(facts: PlanFacts) -> str | None:
    samples = facts.samples
    if samples.rejected <= REJECTED_BEYOND * samples.listed or too_short(facts) is not None:
        return None
    most = max(samples.rejects, key=lambda code: samples.rejects[code].samples, default="")
    return (
        f"{of_samples(samples.rejected, samples.listed)} are left out, most as {most}; "
        f"`diffprep rejects {facts.dataset}` names each, docs/rejects.md says what to do"
    )


def _no_encoders(facts: PlanFacts) -> str | None:
    if facts.models_error is None:
        return None
    return f"a run would stop at once; sizes, tokens and times are unknown: {facts.models_error}"


def _cropped(facts: PlanFacts) -> str | None:
    cut = [bucket for bucket in facts.buckets if bucket.crop_loss > CROPPED_BEYOND]
    if not cut:
        return None
    return (
        f"{_named(cut, lambda bucket: f'{bucket.name} ({share_text(bucket.crop_loss)})')}: more "
        f"than {CROPPED_BEYOND:.0%} of the pixels are cut off on average, and what a "
        f"caption speaks of may be gone. "
        f"{nearer_sizes(facts)} cuts less"
    )


def _shard_sizes(facts: PlanFacts) -> str | None:
    outputs = facts.sizes.outputs if facts.sizes is not None else ()
    return shard_size_warning(outputs, shards=facts.shape.shards)


def _batch_did_not_fit(facts: PlanFacts) -> str | None:
    probe = facts.probe
    if not probe.batch_size or not probe.batch_size_held:
        return None
    if probe.batch_size_held >= probe.batch_size:
        return None
    return (
        f"a batch of {probe.batch_size} does not fit on {probe.device}; {probe.batch_size_held} "
        f"does. A run finds that out for each shard anew: set model.batch_size to that"
    )


def _left_over(facts: PlanFacts) -> str | None:
    loading = facts.loading
    if loading.left_over <= LEFT_OVER_BEYOND * loading.samples:
        return None
    if reads_rows(facts):
        return rows_left_over(facts)
    return (
        f"{of_samples(loading.left_over, loading.samples)} fill no batch in a pass over train with "
        f"{loading.streams:,} streams of batches of {loading.batch_size}: fewer workers, smaller "
        f"batches or fewer buckets leave less"
    )


def _empty_captions(facts: PlanFacts) -> str | None:
    captions = facts.captions
    if captions.empty <= EMPTY_BEYOND * captions.samples:
        return None
    return (
        f"{of_samples(captions.empty, captions.samples)} have an empty caption "
        f"(captions.allow_empty), beside those that a trainer drops by itself"
    )


def _starved_reader(facts: PlanFacts) -> str | None:
    return None if reads_rows(facts) else run_warning(facts.skips, readers=facts.loading.streams)


def _much_skipped(facts: PlanFacts) -> str | None:
    return share_warning(facts.skips)


def _mixed_groups(facts: PlanFacts) -> str | None:
    return mixed_warning(facts.mixed)


def _probe_failed(facts: PlanFacts) -> str | None:
    return None if facts.probe.failed is None else facts.probe.failed


Check = Callable[[PlanFacts], str | None]
WARNINGS: dict[str, tuple[str, Check]] = {
    "W001": ("distorting resize", _distorting),
    "W002": ("tiny buckets", _tiny_buckets),
    "W003": ("fewer shards than readers", _few_shards),
    "W004": ("repeated captions", _repeated_captions),
    "W005": ("empty val split", _empty_val),
    "W006": ("very many partitions", _many_partitions),
    "W007": ("not enough disk", _full_disk),
    "W008": ("captions cut short", _truncated),
    "W009": ("many pictures enlarged", _upscaled),
    "W010": ("many samples rejected", _many_rejects),
    "W011": ("encoders out of reach", _no_encoders),
    "W012": ("much cut off", _cropped),
    "W013": ("very small or very large shards", _shard_sizes),
    "W014": ("batch does not fit", _batch_did_not_fit),
    "W015": ("many samples left over", _left_over),
    "W016": ("many empty captions", _empty_captions),
    "W017": ("probe failed", _probe_failed),
    "W018": ("skipped samples could fill a reader", _starved_reader),
    "W019": ("much is skipped", _much_skipped),
    "W020": ("groups in several splits", _mixed_groups),
    "W021": ("many clips too short", too_short),
    "W022": ("most frames lost", frames_lost),
}


def _named(buckets: Sequence[BucketFacts], words: Callable[[BucketFacts], str]) -> str:
    """The first few, and how many more."""
    named = [words(bucket) for bucket in buckets[:NAMED]]
    more = len(buckets) - NAMED
    return ", ".join(named) + (f" and {more} more buckets" if more > 0 else "")
