"""Whether what lies at a place on this machine is pictures or clips, told without reading them."""

import glob
import os
from collections import Counter
from pathlib import Path

import pyarrow as pa

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.fields import field_keys
from diffprep_resources.sources.file_kinds import kind_of
from diffprep_resources.sources.local_files import walk_files
from diffprep_resources.sources.names import Media, is_media, path_to_bytes, split_suffix
from diffprep_resources.sources.parquet_rows import UNREADABLE, image_column, open_parquet
from diffprep_resources.sources.tar_headers import tar_members
from diffprep_resources.sources.tar_samples import tar_index
from diffprep_resources.sources.video_tables import table_among


def media_at(text: str, working_folder: Path) -> Media:
    """What a folder, a file or a pattern of tars holds; pictures where nothing tells."""
    path = Path(working_folder, os.path.expanduser(text))
    if path.is_dir():
        return _in_folder(path)
    files = [str(path)] if path.is_file() else sorted(glob.glob(str(path), recursive=True))
    return _in_file(Path(files[0])) if files else "pictures"


def _in_folder(folder: Path) -> Media:
    names = list(walk_files(path_to_bytes(str(folder.resolve())), skipped=Counter()))
    if table_among(names) is not None:
        return "clips"
    kinds = Counter(kind_of(name) for name in names)
    packed = sorted(name for name in names if kind_of(name) in ("parquet", "tar"))
    if packed and not kinds["pictures"] and not kinds["clips"]:
        return _in_file(folder / packed[0])
    return "clips" if kinds["clips"] > kinds["pictures"] else "pictures"


def _in_file(path: Path) -> Media:
    suffix = split_suffix(path.name)[1]
    if suffix == "parquet":
        return _in_table(path)
    return _in_tar(path) if suffix == "tar" else "pictures"


def _in_table(path: Path) -> Media:
    """Clips where the usual names find a column of clips and none of pictures."""
    try:
        with open_parquet(path_to_bytes(str(path))) as file:
            schema = file.schema_arrow
    except UNREADABLE:
        return "pictures"
    clips = not _has_column(schema, "pictures") and _has_column(schema, "clips")
    return "clips" if clips else "pictures"


def _has_column(schema: pa.Schema, media: Media) -> bool:
    try:
        image_column(schema, field_keys(media=media))
    except SettingError:
        return False
    return True


def _in_tar(path: Path) -> Media:
    with path.open("rb") as file:
        index = tar_index(tar_members(file.fileno()), keys=field_keys(media="clips"))
    pictures = sum(is_media(split_suffix(name)[1], "pictures") for name in index.fields)
    return "clips" if len(index.pictures) >= max(1, pictures) else "pictures"
