"""Sentences that the terminal and the page share."""

from collections.abc import Iterator

from diffprep_assets.plan_report.facts import CaptionFacts, LoadingFacts, PlanFacts, ProbeFacts
from diffprep_assets.quantities import bytes_text, share_text
from diffprep_assets.shard.truncation import NAMES

STAGE_WORDS = {
    "encode_latents": "encode pictures",
    "encode_text": "encode captions",
    "shard": "write tars",
}


def encoder_name(role: str) -> str:
    return NAMES.get(role, role)


def caption_sentences(captions: CaptionFacts) -> Iterator[str]:
    """On the counting, on a better length, and on repeats."""
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
    elif captions.tokens and better is None:
        yield f"No shorter round t5_max_length than {limit} cuts fewer than 1% of the captions."
    if captions.repeated_share:
        about = "" if captions.repeats_exact else "about "
        yield (
            f"{about}{share_text(captions.repeated_share)} of the samples share their caption with "
            f"another."
        )


def loading_sentence(loading: LoadingFacts) -> str:
    """What one pass over train makes, and what becomes of the rest."""
    return (
        f"One pass over train with {loading.ranks:,} {'rank' if loading.ranks == 1 else 'ranks'} x "
        f"{max(1, loading.workers):,} workers and batches of {loading.batch_size}: "
        f"{loading.batches:,} full batches; {loading.left_over:,} of {loading.samples:,} samples "
        f"({share_text(loading.left_over / max(1, loading.samples))}) fill none. Energon's "
        f"training loader, which repeats, keeps them for the next pass; one that drops the last "
        f"batch of a pass never shows them."
    )


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
    words = f"From a few batches of {probe.batch_size} on {probe.device}"
    if probe.peak_memory:
        words += f"; at most {bytes_text(probe.peak_memory)} of memory held"
        if probe.memory_total:
            words += f", of {bytes_text(probe.memory_total)}"
    return f"{words}. Publishing and validating come on top: the output is read once."
