"""validation.json: what FastVideo's trainers make clips of while they train, one file a bucket.

[<W>x<H>x<T>/]validation.json                           the first PROMPTS samples of split val
[<W>x<H>x<T>/]validation_images/0000000007-1f9c03ab.png  their first frames, for image-to-video
"""

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import xxhash
from PIL import Image

from diffprep_assets.energon_prepare.folder_metadata import write_if_changed
from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.layout import Layout
from diffprep_resources.encoders.base import Workload
from diffprep_resources.fastvideo.validation import ValidationPrompt, validation_bytes
from diffprep_resources.storage.parquet_tables import readable_table

VALIDATION_JSON = "validation.json"
IMAGES = "validation_images"
SIZE = re.compile(r"\d+x\d+x\d+")
PROMPTS = 16
"""Each is a whole clip that the trainer makes, at every step on which it validates."""
COLUMNS = ("id", "caption", "width", "height", "num_frames")
PICTURE_COLUMNS = ("pil_image_bytes", "pil_image_shape")


@dataclass(frozen=True, slots=True)
class ValidationClip:
    """One prompt of a bucket's folder ("" where there is one bucket), and its picture's PNG."""

    folder: str
    prompt: ValidationPrompt
    image: bytes | None


def validation_clips(
    layout: Layout, shards: Sequence[PublishedShard], *, workload: Workload
) -> list[ValidationClip]:
    """The first served samples of split val by sample_id, of each bucket. Raises
    DamagedTableError."""
    by_folder: dict[str, list[PublishedShard]] = {}
    for shard in shards:
        if shard.split == "val":
            by_folder.setdefault(bucket_folder(shard.name), []).append(shard)
    clips = []
    for folder, found in sorted(by_folder.items()):
        rows = [row for shard in found for row in _ids(layout, shard)]
        for _, path, group in sorted(rows)[:PROMPTS]:
            clips.append(_clip(folder, path, group, workload=workload))
    return clips


def write_validation_set(layout: Layout, clips: Sequence[ValidationClip]) -> None:
    """Pictures, then each bucket's validation.json, then what they do not name gone."""
    by_folder: dict[str, list[ValidationClip]] = {}
    for clip in clips:
        by_folder.setdefault(clip.folder, []).append(clip)
    for folder, found in by_folder.items():
        place = layout.output_dir / folder
        for clip in found:
            if clip.image is not None and clip.prompt.image_path is not None:
                write_if_changed(place / clip.prompt.image_path, clip.image)
        write_if_changed(place / VALIDATION_JSON, validation_bytes(c.prompt for c in found))
    wanted = {
        layout.output_dir / clip.folder / clip.prompt.image_path
        for clip in clips
        if clip.prompt.image_path is not None
    }
    wanted |= {layout.output_dir / folder / VALIDATION_JSON for folder in by_folder}
    _remove(path for path in validation_files(layout.output_dir) if path not in wanted)


def remove_validation_set(layout: Layout) -> None:
    """No prompts and pictures any more."""
    _remove(validation_files(layout.output_dir))


def validation_files(output_dir: Path) -> Iterator[Path]:
    """Every validation.json and picture of one that is there."""
    for folder in bucket_folders(output_dir):
        yield from sorted((folder / IMAGES).glob("*.png"))
        if (folder / VALIDATION_JSON).is_file():
            yield folder / VALIDATION_JSON


def bucket_folders(output_dir: Path) -> list[Path]:
    """The output folder itself, and those in it that are named as a bucket's are."""
    if not output_dir.is_dir():
        return []
    found = [path for path in output_dir.iterdir() if SIZE.fullmatch(path.name)]
    return [output_dir, *sorted(found)]


def bucket_folder(name: str) -> str:
    """The folder of a shard's bucket, by its published name; "" where there is one bucket."""
    return "/".join(name.split("/")[:-2])


def _remove(paths: Iterator[Path]) -> None:
    for path in list(paths):
        path.unlink()
        if path.parent.name == IMAGES and not any(path.parent.iterdir()):
            path.parent.rmdir()


def _ids(layout: Layout, shard: PublishedShard) -> Iterator[tuple[str, Path, int]]:
    for path in sorted((layout.output_dir / shard.name).glob("*.parquet")):
        with readable_table(path):
            ids = pq.read_table(path, columns=["id"]).column("id").to_pylist()
        yield from ((row_id, path, group) for group, row_id in enumerate(ids))


def _clip(folder: str, path: Path, group: int, *, workload: Workload) -> ValidationClip:
    names = [*COLUMNS, *(PICTURE_COLUMNS if workload == "i2v" else ())]
    with readable_table(path), pq.ParquetFile(path) as file:
        (row,) = file.read_row_group(group, columns=names).to_pylist()
    image = _png(row) if row.get("pil_image_bytes") else None
    image_path = None
    if image is not None:
        image_path = f"{IMAGES}/{row['id']}-{xxhash.xxh3_128_hexdigest(image)[:8]}.png"
    prompt = ValidationPrompt(
        caption=row["caption"],
        width=row["width"],
        height=row["height"],
        num_frames=row["num_frames"],
        image_path=image_path,
    )
    return ValidationClip(folder, prompt, image)


def _png(row: dict) -> bytes:
    pixels = np.frombuffer(row["pil_image_bytes"], "<f4").reshape(row["pil_image_shape"])
    file = io.BytesIO()
    Image.fromarray(pixels.transpose(1, 2, 0).astype(np.uint8)).save(file, format="PNG")
    return file.getvalue()
