"""clips.jsonl: the training clips themselves with their captions, for trainers that encode them.

One line a clip, `{"video": <path>, "prompt": <caption>}`; one file a bucket.
"""

import json
from collections.abc import Sequence
from pathlib import Path

from diffprep_assets.energon_prepare.folder_metadata import write_if_changed
from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.fastvideo_prepare.validation_set import bucket_folder, bucket_folders
from diffprep_assets.layout import Layout
from diffprep_assets.shard.record import sample_columns
from diffprep_assets.shard_plan.members import Member, members_of_shard

CLIPS_JSONL = "clips.jsonl"


def write_clips_lists(
    layout: Layout, shards: Sequence[PublishedShard], *, source_folder: Path | None
) -> None:
    """The lists as they should be: of split train what is served, in the order of the shards. None
    with `source_folder` None, the folder that the clips' own paths start from."""
    lines: dict[Path, list[str]] = {}
    if source_folder is not None:
        for shard in (shard for shard in shards if shard.split == "train"):
            (written,) = sample_columns(shard.samples, "sample_id")
            served = set(written) - set(shard.skipped)
            members = members_of_shard(layout, shard.record.shard)
            place = layout.output_dir / bucket_folder(shard.name) / CLIPS_JSONL
            lines.setdefault(place, []).extend(
                clip_line(member, source_folder=source_folder)
                for member in members
                if member.planned.sample_id in served
            )
    for path, found in lines.items():
        write_if_changed(path, ("\n".join(found) + "\n").encode())
    for path in clips_lists(layout.output_dir):
        if path not in lines:
            path.unlink()


def clip_line(member: Member, *, source_folder: Path) -> str:
    """The line of one clip, without its end."""
    path = source_folder / member.location.path
    return json.dumps({"video": str(path), "prompt": member.caption}, ensure_ascii=False)


def clips_lists(output_dir: Path) -> list[Path]:
    """Those that are there."""
    places = (folder / CLIPS_JSONL for folder in bucket_folders(output_dir))
    return [path for path in places if path.is_file()]
