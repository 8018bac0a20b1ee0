"""What `--from` names: the `source` section of a recipe that reads it."""

import glob
import os
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.recipe.folders import is_remote
from diffprep_resources.errors import SettingError
from diffprep_resources.sources.file_kinds import counted_by_suffix, kind_of
from diffprep_resources.sources.local_files import walk_files
from diffprep_resources.sources.metadata_files import is_metadata
from diffprep_resources.sources.names import NOUNS, Media, path_to_bytes
from diffprep_resources.sources.shapes import COMPRESSED
from diffprep_resources.sources.video_tables import table_among

HUB = re.compile(
    r"(?:hf:(?://)?(?:datasets/)?|https://huggingface\.co/datasets/)"
    r"(?P<name>[\w.-]+/[\w.-]+)(?:@(?P<revision>[\w./-]+))?/?"
)
FORMS = (
    "a folder, 'shards/*.tar', hf:owner/name, s3://bucket/folder, s3://bucket/x-*.tar or "
    "https://host/x-{000..012}.tar"
)


@dataclass(frozen=True, slots=True)
class Place:
    """The command's words: where to look, from which folder, and what of a Hub dataset to take."""

    text: str
    working_folder: Path
    project_folder: Path
    hf_name: str | None = None
    hf_split: str | None = None
    media: Media = "pictures"


def source_section(place: Place) -> dict[str, str]:
    """The recipe's `source` for the place. Raises SettingError where nothing readable is there."""
    match = HUB.fullmatch(place.text)
    if match:
        found = {"type": "huggingface", "hf_dataset": match["name"]}
        if match["revision"]:
            found["hf_revision"] = match["revision"]
        return found | _choice(place)
    if place.text.startswith("hf:"):
        raise SettingError(f"--from: a dataset on the Hub is hf:owner/name, got {place.text!r}")
    if is_remote(place.text):
        return _remote(place.text)
    return _local(place)


def _choice(place: Place) -> dict[str, str]:
    asked = {"hf_name": place.hf_name, "hf_split": place.hf_split}
    return {key: value for key, value in asked.items() if value is not None}


def _remote(text: str) -> dict[str, str]:
    if text.startswith("s3://") and not text.endswith(".tar"):
        return {"type": "directory", "input_dir": text}
    return {"type": "webdataset", "input_path": text}


def _local(place: Place) -> dict[str, str]:
    path = Path(place.working_folder, os.path.expanduser(place.text))
    if path.is_dir():
        return _folder(place, path)
    if path.is_file():
        return _file(place, path)
    if glob.has_magic(place.text):
        return {"type": "webdataset", "input_path": as_written(path, place)}
    if "{" in place.text:
        raise SettingError(
            f"--from: braces are understood in s3:// and https:// addresses only, got "
            f"{place.text!r}; on this machine write a pattern with *, in quotes"
        )
    is_name = re.fullmatch(r"[\w.-]+/[\w.-]+", place.text)
    hint = f"; for a dataset on the Hub write hf:{place.text}" if is_name else ""
    raise SettingError(f"--from: there is nothing at {path}{hint}. Allowed are {FORMS}")


def _file(place: Place, path: Path) -> dict[str, str]:
    """A single file stands for itself where it holds samples, else for nothing."""
    name = path.name.lower()
    if name.endswith(".tar"):
        return {"type": "webdataset", "input_path": as_written(path, place)}
    if kind_of(path.name) == "parquet":
        return {
            "type": "huggingface",
            "hf_dataset": as_written(path.parent, place, as_folder=True),
            "hf_data_files": path.name,
        } | _choice(place)
    if name.endswith((*COMPRESSED, ".zip")):
        raise SettingError(
            f"--from: {path} is packed; pictures are read at random places, which that does not "
            f"allow. Unpack it, and name the folder or the .tar"
        )
    raise SettingError(
        f"--from: {path} is a file that holds no samples; name the folder that it lies in, "
        f"{path.parent}, or {FORMS}"
    )


def _folder(place: Place, path: Path) -> dict[str, str]:
    skipped: Counter[str] = Counter()
    names = list(walk_files(path_to_bytes(str(path.resolve())), skipped=skipped))
    kinds = Counter(kind_of(name) for name in names)
    written = as_written(path, place)
    if place.media == "clips" and table_among(names) is not None:
        return {"type": "directory", "input_dir": written}
    if kinds["parquet"] or (kinds[place.media] and any(map(is_metadata, names))):
        folder = as_written(path, place, as_folder=True)
        return {"type": "huggingface", "hf_dataset": folder} | _choice(place)
    if kinds[place.media]:
        return {"type": "directory", "input_dir": written}
    if kinds["tar"]:
        nested = any("/" in name for name in names if kind_of(name) == "tar")
        return {"type": "webdataset", "input_path": f"{written}/{'**/' if nested else ''}*.tar"}
    raise SettingError(
        f"--from: {path} holds no {NOUNS[place.media]}, no tar and no parquet file; it holds "
        f"{_listed(counted_by_suffix(names) + skipped)}"
    )


def _listed(counts: Mapping[str, int]) -> str:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {name}" for name, count in ordered[:6]) or "nothing at all"


def as_written(path: Path, place: Place, *, as_folder: bool = False) -> str:
    """The path as a recipe writes it: relative to the project where it lies below it, or where it
    was given relative; else absolute. With `as_folder`, never a name that the Hub might have."""
    absolute = Path(os.path.abspath(path))
    given = Path(place.text)
    relative = not given.is_absolute() and not place.text.startswith("~")
    if not relative and not absolute.is_relative_to(place.project_folder):
        return str(absolute)
    text = Path(os.path.relpath(absolute, place.project_folder)).as_posix()
    may_be_name = as_folder and text.count("/") == 1 and not text.startswith((".", "/"))
    return f"./{text}" if may_be_name else text
