"""Makes FastVideo's videos2caption.json of clips: what each file is, told from the file itself."""

from collections.abc import Iterable, Iterator
from typing import Any

from diffprep_resources.clips.probe import clip_facts
from diffprep_resources.errors import SampleReject
from diffprep_resources.sources.local_files import file_path
from diffprep_resources.sources.names import Root
from diffprep_resources.sources.video_tables import VIDEOS, VideoEntry


def indexed(
    entries: Iterable[VideoEntry], *, root: Root
) -> Iterator[tuple[VideoEntry, dict[str, Any] | SampleReject]]:
    """Each clip with its entry of the table, or the reason why it has none.

    Sizes are those shown, upright; `num_frames` and `fps` are what a player shows, which the
    container's own counts are not always.
    """
    for entry in entries:
        try:
            yield entry, _described(entry, root=root)
        except SampleReject as reject:
            yield entry, reject


def _described(entry: VideoEntry, *, root: Root) -> dict[str, Any]:
    if entry.reject is not None:
        raise entry.reject
    path = file_path(root, entry.path)
    try:
        size = path.stat().st_size
        facts = clip_facts(path, allow_hdr=True)
    except FileNotFoundError as error:
        raise SampleReject("source_missing", f"there is no {entry.path}") from error
    width, height = facts.shape.shown_size
    return {
        "path": entry.path.removeprefix(f"{VIDEOS}/"),
        "resolution": {"width": width, "height": height},
        "size": size,
        "fps": round(float(facts.times.mean_rate), 6),
        "duration": round(float(facts.times.duration_s), 6),
        "num_frames": len(facts.times.pts),
        "cap": entry.caption if isinstance(entry.caption, list) else [entry.caption],
    }
