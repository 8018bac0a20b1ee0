"""What is worth a second look in a plan of clips, and what helps with them where other settings
help with pictures."""

from diffprep_assets.plan_report.facts import PlanFacts
from diffprep_assets.plan_report.warning_words import of_samples
from diffprep_assets.quantities import share_text

REJECTED_BEYOND = 0.05
FRAMES_LOST_BEYOND = 0.5


def too_short(facts: PlanFacts) -> str | None:
    clips, short = facts.clips, facts.samples.rejects.get("video_too_short")
    if clips is None or short is None or short.samples <= REJECTED_BEYOND * facts.samples.listed:
        return None
    way_out = "video.buckets.frames with a smaller count beside the others takes them too"
    if clips.most_fill < clips.fewest_frames:
        way_out = f"95% of the clips fill {clips.most_fill} frames: video.num_frames, or {way_out}"
    return (
        f"{of_samples(short.samples, facts.samples.listed)} have fewer than "
        f"{clips.fewest_frames} frames at {clips.train_fps:g} fps; {way_out}"
    )


def frames_lost(facts: PlanFacts) -> str | None:
    clips = facts.clips
    if clips is None or clips.frames_lost <= FRAMES_LOST_BEYOND * clips.frames_found:
        return None
    return (
        f"{clips.frames_lost:,} of {clips.frames_found:,} frames "
        f"({share_text(clips.frames_lost / clips.frames_found)}) of kept clips are in no sample. "
        f"Longer samples (video.num_frames, video.buckets.frames) take more; to use all, cut the "
        f"clips into pieces of that length first"
    )


def rows_left_over(facts: PlanFacts) -> str:
    """Rows of FastVideo's files that a pass does not show."""
    loading = facts.loading
    return (
        f"{of_samples(loading.left_over, loading.samples)} fill no batch in a pass over train with "
        f"{loading.ranks} x {loading.batch_size} samples, and FastVideo's loader drops them: "
        f"smaller batches, fewer ranks or fewer buckets drop less"
    )


def reads_rows(facts: PlanFacts) -> bool:
    """Whether trainers read single rows of any file: shards are nothing to them."""
    return "fastvideo" in facts.formats and "energon_video" not in facts.formats


def fewer_buckets(facts: PlanFacts) -> str:
    if facts.clips is not None:
        return "Name fewer video.buckets (sizes, frames)"
    return "Narrow image.buckets (tiers, min_aspect, max_aspect)"


def lower_resolution(facts: PlanFacts) -> str:
    """What makes fewer samples grow."""
    if facts.clips is None:
        return (
            "lower the resolution (image.image_size, image.max_size or image.buckets.tiers), or "
            "raise image.min_side to leave small pictures out"
        )
    return (
        "lower the resolution (video.max_width and video.max_height, or video.buckets.sizes), or "
        "leave small clips out by curate.filters.min_side"
    )


def nearer_sizes(facts: PlanFacts) -> str:
    """What has sizes nearer to the samples' own."""
    return "image.buckets" if facts.clips is None else "video.buckets with sizes of other aspects"
