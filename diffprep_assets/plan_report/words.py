"""Sentences that the terminal and the page share."""

from collections.abc import Iterator, Mapping

from diffprep_assets.plan_report.facts import (
    CaptionFacts,
    ClipFacts,
    OutputSize,
    PlanFacts,
    ProbeFacts,
    VerdictFacts,
)
from diffprep_assets.quantities import bytes_text, share_text
from diffprep_assets.shard.truncation import NAMES

STAGE_WORDS = {
    "encode_latents": "encode pictures",
    "encode_text": "encode captions",
    "shard": "write tars",
    "shard_raw": "store raw",
    "shard_mds": "store MDS",
    "encode_first_frame": "encode first frames",
    "encode_clip": "features of first frames",
    "shard_energon_video": "write tars",
}
CLIP_STAGE_WORDS = STAGE_WORDS | {"encode_latents": "encode clips", "shard": "write parquet"}


AFTERWARDS = "Publishing and validating come on top: the output is read once."


def encoder_name(role: str) -> str:
    return NAMES.get(role, role)


def stage_words(facts: PlanFacts) -> Mapping[str, str]:
    """What each stage does, by its name."""
    return STAGE_WORDS if facts.clips is None else CLIP_STAGE_WORDS


def clip_sentences(clips: ClipFacts) -> Iterator[str]:
    """How long clips are, what is taken of them, and what that leaves."""
    fps = f"{clips.train_fps:g} fps"
    yield (
        f"{clips.clips:,} clips opened: 5% are shorter than {clips.p5_s:.1f} s, half than "
        f"{clips.median_s:.1f} s, 95% than {clips.p95_s:.1f} s; the longest has "
        f"{clips.longest_s:.1f} s. Kept are {clips.shortest_s:.2f} s ({clips.fewest_frames} frames "
        f"at {fps}) to {clips.limit_s:.2f} s; 95% fill {clips.most_fill} frames."
    )
    yield (
        f"Of {clips.frames_found:,} frames that kept clips have at {fps}, {clips.frames_taken:,} "
        f"are in samples and {clips.frames_lost:,} "
        f"({share_text(clips.frames_lost / max(1, clips.frames_found))}) are not."
    )


def sample_sentence(facts: PlanFacts) -> str:
    """What goes in, and what becomes of it."""
    samples, shape = facts.samples, facts.shape
    splits = ", ".join(f"{name} {count:,}" for name, count in samples.splits.items() if count)
    words = (
        f"{samples.listed:,} in, {samples.kept:,} kept ({splits}), {samples.rejected:,} rejected; "
        f"{shape.shards:,} shards in generation {shape.generation}"
    )
    if samples.skipped:
        words += f". {samples.skipped:,} are written and skipped: {samples.served:,} are served"
    return words


def verdict_words(verdict: VerdictFacts) -> str:
    """A rule, the reason code, and what becomes of its samples."""
    return f"{verdict.rule} ({verdict.code}): {verdict_outcome(verdict)}"


def verdict_outcome(verdict: VerdictFacts) -> str:
    """What becomes of the samples that a rule is against."""
    parts = []
    if verdict.left_out:
        parts.append(f"{verdict.left_out:,} left out")
    if verdict.skipped:
        parts.append(f"{verdict.skipped:,} written and skipped")
    return " and ".join(parts)


def output_sentence(output: OutputSize) -> str:
    """One format, what it takes, and how that is known."""
    words = (
        f"{output.format}: {bytes_text(output.bytes)}, shards of {bytes_text(output.mean_shard)} "
        f"on average"
    )
    if output.pictures is None:
        return words
    if not output.pictures:
        return f"{words}, by a rule of thumb: no picture could be read again"
    some = "1 picture" if output.pictures == 1 else f"{output.pictures} pictures"
    return f"{words}, by {some} stored for a try"


def caption_sentences(captions: CaptionFacts, *, may_be_shorter: bool = True) -> Iterator[str]:
    """On the counting, on a better length where one could save something, and on repeats."""
    if captions.tokens and captions.counted < captions.samples:
        yield (
            f"Tokens of {captions.counted:,} of {captions.samples:,} captions, drawn by a fixed "
            f"seed."
        )
    better = captions.better_length
    limit = captions.tokens["t5"].limit if captions.tokens else 0
    if better is not None and better.bytes_saved > 0:
        yield (
            f"t5_max_length: {better.t5_max_length} would cut {share_text(better.truncated_share)} "
            f"of the captions and save {bytes_text(better.bytes_saved)}; a model attends to the "
            f"padding, so train and sample with the same length."
        )
    elif captions.tokens and better is None and may_be_shorter:
        yield f"No shorter round t5_max_length than {limit} cuts fewer than 1% of the captions."
    if captions.repeated_share:
        about = "" if captions.repeats_exact else "about "
        yield (
            f"{about}{share_text(captions.repeated_share)} of the samples share their caption with "
            f"another."
        )


def loading_sentence(facts: PlanFacts) -> str:
    """What one pass over train makes, and what becomes of the rest."""
    loading = facts.loading
    if "fastvideo" in facts.formats:
        return (
            f"One pass over train with {loading.ranks:,} "
            f"{'rank' if loading.ranks == 1 else 'ranks'} and batches of {loading.batch_size}: "
            f"{loading.batches:,} full batches; {loading.left_over:,} of {loading.samples:,} "
            f"samples ({share_text(loading.left_over / max(1, loading.samples))}) fill none, and "
            f"FastVideo's loader drops them. Each bucket is a training run of its own."
        )
    words = (
        f"One pass over train with {loading.ranks:,} {'rank' if loading.ranks == 1 else 'ranks'} x "
        f"{max(1, loading.workers):,} workers and batches of {loading.batch_size}: "
        f"{loading.batches:,} full batches; {loading.left_over:,} of {loading.samples:,} samples "
        f"({share_text(loading.left_over / max(1, loading.samples))}) fill none. Energon's "
        f"training loader, which repeats, keeps them for the next pass; one that drops the last "
        f"batch of a pass never shows them."
    )
    if "mds" in facts.formats:
        words += (
            " Readers of MDS deal otherwise; PRX's per_stream drops each bucket's incomplete last "
            "batch."
        )
    return words


def disk_sentences(facts: PlanFacts) -> Iterator[str]:
    for disk in facts.disks:
        verdict = "enough" if disk.needed <= disk.free else "NOT ENOUGH"
        yield (
            f"{disk.holds}: {bytes_text(disk.needed)} still needed, {bytes_text(disk.free)} free "
            f"({verdict}), {disk.folder}"
        )


def probe_sentence(probe: ProbeFacts) -> str:
    """What was timed on what, or why nothing was."""
    if probe.skipped is not None:
        return f"Not timed: {probe.skipped}."
    if not probe.stages:
        return f"Not timed: {probe.failed or 'nothing is to be encoded'}."
    if probe.device is None:
        return f"From a few pictures stored for a try. {AFTERWARDS}"
    words = f"From a few batches of {probe.batch_size} on {probe.device}"
    if probe.peak_memory:
        words += f"; at most {bytes_text(probe.peak_memory)} of memory held"
        if probe.memory_total:
            words += f", of {bytes_text(probe.memory_total)}"
    return f"{words}. {AFTERWARDS}"
