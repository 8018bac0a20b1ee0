"""What this dataset has put into its output folder, so that it touches nothing else there.

Kept twice: in the dataset's own folder, written before anything is linked (a crash leaves no file
that nobody owns, and `finalize: false` needs it), and in dataset.json, which travels with the
output when the storage root is lost.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import xxhash

from diffprep_assets.energon_prepare.names import (
    MDS_SUFFIX,
    TAR_SUFFIX,
    NamedContent,
    highest_rewrites,
)
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.formats import SHARD_STAGE
from diffprep_resources.errors import SettingError
from diffprep_resources.storage.atomic import write_bytes

STATE_VERSION = 1
DEEPEST = 4  # <split>/<tier>/<aspect>/<shard>.mds

Stamp = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PublishedFile(NamedContent):
    """A name of ours, what it holds, and (size, mtime_ns) of it and of its source when linked."""

    stamp: Stamp | None = None
    source_stamp: Stamp | None = None


@dataclass(frozen=True, slots=True)
class OutputState:
    """Every tar of ours in the output folder, and the highest rewrite count per base name.

    `index_stamps`: those of the index files, by file name, when they were last written.
    """

    output_dir: str
    files: Mapping[str, PublishedFile] = field(default_factory=dict)
    rewrites: Mapping[str, int] = field(default_factory=dict)
    index_stamps: Mapping[str, Stamp] = field(default_factory=dict)


def state_path(layout: Layout) -> Path:
    return layout.published_state


def load_state(layout: Layout) -> OutputState:
    """The state of the output folder. SettingError when another dataset's files are in it."""
    kept = _kept_state(state_path(layout))
    is_here = kept is not None and kept.output_dir == str(layout.output_dir.resolve())
    published = _published_state(layout, is_ours=is_here)
    if kept is not None and not is_here:
        kept = _believed(layout, kept, published)
    merged = _merged(layout, kept, published)
    if published is None and not merged.files:
        _refuse_unknown(layout)
    return merged


def check_output(layout: Layout) -> None:
    """Nothing, when the output folder is free or this dataset's; else SettingError naming both."""
    load_state(layout)


def save_state(layout: Layout, state: OutputState) -> None:
    """The state, in the dataset's own folder."""
    content = {"version": STATE_VERSION, **asdict(state)}
    data = json.dumps(content, sort_keys=True, indent=1).encode() + b"\n"
    path = state_path(layout)
    if not path.exists() or path.read_bytes() != data:
        write_bytes(path, data)


def stamp_of(path: Path) -> Stamp | None:
    """(size, mtime_ns) of a file; None when there is none."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_size, stat.st_mtime_ns


def holds(path: Path, content: NamedContent) -> bool:
    """True when the file's bytes are that content. Reads it whole unless the size differs."""
    stamp = stamp_of(path)
    if stamp is None or stamp[0] != content.size_bytes:
        return False
    digest = xxhash.xxh3_128()
    with path.open("rb") as file:
        while chunk := file.read(1 << 20):
            digest.update(chunk)
    return digest.hexdigest() == content.digest


def is_in_place(path: Path, *, source: Path, content: NamedContent, known: PublishedFile) -> bool:
    """True when `path` is the finished tar `source`, by inode, by both stamps, else by its bytes.

    A shard that was found damaged and made again has equal digest and a new inode: its old link is
    read, found wrong, and not taken for it.
    """
    if not path.exists():
        return False
    if path.samefile(source):
        return True
    stamps = (known.stamp, known.source_stamp)
    if None not in stamps and stamps == (stamp_of(path), stamp_of(source)):
        return known.digest == content.digest
    return holds(path, content)


def _kept_state(path: Path) -> OutputState | None:
    try:
        content: dict[str, Any] = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    files = {
        name: PublishedFile(
            file["digest"],
            file["size_bytes"],
            stamp=_stamp(file["stamp"]),
            source_stamp=_stamp(file["source_stamp"]),
        )
        for name, file in content["files"].items()
    }
    stamps = {name: (stamp[0], stamp[1]) for name, stamp in content["index_stamps"].items()}
    return OutputState(content["output_dir"], files, content["rewrites"], stamps)


def _stamp(value: list[int] | None) -> Stamp | None:
    return None if value is None else (value[0], value[1])


def _published_state(layout: Layout, *, is_ours: bool) -> OutputState | None:
    """What dataset.json says. SettingError when it is another dataset's, or not ours at all; in a
    folder that `is_ours`, one that cannot be read is a damaged file, and says nothing."""
    if not layout.dataset_json.exists():
        return None
    content = read_provenance(layout.dataset_json)
    if content is None and is_ours:
        return None
    if content is None or content["dataset"] != layout.dataset:
        other = "something else" if content is None else f"dataset {content['dataset']!r}"
        raise SettingError(
            f"output.output_dir {layout.output_dir} holds {other} ({layout.dataset_json}), "
            f"not dataset {layout.dataset!r}: give {layout.dataset!r} a folder of its own"
        )
    files = {
        shard["name"]: PublishedFile(shard["digest"], shard["size_bytes"])
        for shard in content["shards"]
    }
    return OutputState(str(layout.output_dir.resolve()), files, content["names"])


def _believed(layout: Layout, kept: OutputState, published: OutputState | None) -> OutputState:
    """`kept` of another path: moved to a new mount point, or the recipe names another folder now.

    A name counts as ours there only when dataset.json says so, or when its bytes do.
    """
    names = {} if published is None else published.files
    files = {
        name: file
        for name, file in kept.files.items()
        if name in names or holds(layout.output_dir / name, file)
    }
    return OutputState(str(layout.output_dir.resolve()), files, kept.rewrites, kept.index_stamps)


def _merged(layout: Layout, kept: OutputState | None, published: OutputState | None) -> OutputState:
    states = [state for state in (published, kept) if state is not None]
    files: dict[str, PublishedFile] = {}
    rewrites: dict[str, int] = {}
    for state in states:
        files.update(state.files)
        for base, count in state.rewrites.items():
            rewrites[base] = max(count, rewrites.get(base, 0))
    return OutputState(
        str(layout.output_dir.resolve()),
        files,
        highest_rewrites(files, known=rewrites),
        {} if kept is None else kept.index_stamps,
    )


def _refuse_unknown(layout: Layout) -> None:
    """SettingError when shards or energon metadata stand in a folder that nothing of ours is in;
    the folders of this dataset's other formats are theirs."""
    others = {layout.of(name).output_dir for name in SHARD_STAGE} - {layout.output_dir}
    found = first_shard(layout.output_dir, besides=others)
    if found is None and layout.nv_meta.exists():
        found = layout.nv_meta
    if found is not None:
        raise SettingError(
            f"output.output_dir {layout.output_dir} holds another dataset: {found} was not written "
            f"by dataset {layout.dataset!r}, and no dataset.json says whose it is; "
            "empty that folder or name another"
        )


def _is_fastvideo(path: Path) -> bool:
    return path.name.startswith("data_chunk_") and path.suffix == ".parquet"


def first_shard(folder: Path, *, besides: Collection[Path] = ()) -> Path | None:
    """Some tar, MDS shard or FastVideo file in `folder`, at any depth that a dataset uses, but in
    no folder of `besides`; None when there is none."""
    level = [folder]
    for _ in range(DEEPEST):
        entries = [entry for path in level if path.is_dir() for entry in sorted(path.iterdir())]
        for entry in entries:
            if entry.name.endswith((TAR_SUFFIX, MDS_SUFFIX)) or _is_fastvideo(entry):
                return entry
        folders = [entry for entry in entries if entry.is_dir() and not entry.is_symlink()]
        level = [folder for folder in folders if folder not in besides]
    return None
