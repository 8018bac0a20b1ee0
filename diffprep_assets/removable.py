"""What `diffprep clean` may remove of a dataset, by kind. Symbolic links are never followed."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from diffprep_assets.changes import plural
from diffprep_assets.encoded_rows import row_path, whole_record
from diffprep_assets.layout import Layout
from diffprep_assets.published_files import published_files
from diffprep_assets.recipe.formats import (
    ENCODE_STAGES,
    PREPARE_STAGE,
    SHARD_STAGE,
    Format,
    main_format,
)
from diffprep_assets.shard_plan.table import read_head, read_shards
from diffprep_resources.errors import SettingError
from diffprep_resources.storage.atomic import TEMPORARY_PREFIX
from diffprep_resources.storage.row_file import read_header

Kind = Literal["old generations", "old formats", "downloads", "intermediates", "work", "output"]


@dataclass(frozen=True, slots=True)
class Removable:
    """Files of one kind, and a word on what stays or follows."""

    kind: Kind
    paths: tuple[Path, ...]
    note: str = ""

    @property
    def size_bytes(self) -> int:
        """Bytes of the files; a tar may have a second name in the output, or in the work folder."""
        return sum(os.lstat(path).st_size for path in self.paths)


def removable(layout: Layout, kind: Kind, *, formats: Sequence[Format]) -> Removable:
    """What there is of a kind now; `formats` are those that the recipe lists."""
    return {
        "old generations": old_generations,
        "old formats": old_formats,
        "downloads": downloads,
        "intermediates": intermediates,
        "work": work,
        "output": output,
    }[kind](layout, formats)


def old_generations(layout: Layout, formats: Sequence[Format]) -> Removable:
    """Files of shards that the plan does not hold any more, and what killed runs left."""
    plan, view = read_head(layout.shard_plan), read_head(layout.shards)
    if plan is None or view is None or plan["digest"] != view["plan_digest"]:
        return Removable("old generations", (), "there is no whole plan to tell by")
    shards = {shard.shard for shard in read_shards(layout.shards)}
    finished = [layout.of(name).shards_folder for name in SHARD_STAGE]
    paths = []
    rows = {row_path(layout, stage, "x").parent for stage in ENCODE_STAGES}
    for folder in {*rows, *finished}:
        for path in files_below(folder):
            # The files of a FastVideo shard lie in a folder of their own.
            shard = path.relative_to(folder).parts[0].partition(".")[0]
            if path.name.startswith(TEMPORARY_PREFIX) or shard not in shards:
                paths.append(path)
    paths = sorted(set(paths) - {layout.empty_encodings})
    unwritten = sum(
        any(whole_record(layout.of(name), shard) is None for name in formats) for shard in shards
    )
    note = ""
    if paths and unwritten:
        note = (
            f"{unwritten:,} {plural('shard', unwritten)} of the plan not written yet; what the "
            f"next run could take over from these, it makes again"
        )
    return Removable("old generations", tuple(paths), note)


def downloads(layout: Layout, _: Sequence[Format]) -> Removable:
    """Fetched bytes of a remote source; their stamps stay."""
    folder = layout.download("x").parent
    entries = sorted(folder.iterdir()) if _is_folder(folder) else []
    paths = [path for entry in entries if _is_folder(entry) for path in files_below(entry)]
    note = "the next run fetches again what it needs" if paths else "nothing was fetched"
    return Removable("downloads", tuple(paths), note)


def intermediates(layout: Layout, formats: Sequence[Format]) -> Removable:
    """Encoded rows that stand in a finished shard of the dataset's main format. What a run would
    encode again stays: other formats do not give back what they hold."""
    main = layout.of(main_format([*formats, layout.format]) or "energon")
    found: list[Path] = []
    kept = 0
    for shard in read_shards(layout.shards):
        rows = [row_path(layout, stage, shard.shard) for stage in ENCODE_STAGES]
        there = [path for path in rows if path.is_file() and not _is_linked(path)]
        if there and _is_finished(main, shard.shard):
            found += there
        else:
            kept += len(there)
    where = "finished shard" if main.format == "fastvideo" else "tar"
    note = f"{kept:,} {plural('file', kept)} stay, whose rows no {where} holds" if kept else ""
    return Removable("intermediates", tuple(found), note)


def _is_finished(layout: Layout, shard: str) -> bool:
    """Whether the finished shard of the layout's format holds every row of its row files. Of a
    sample that was left out at one stage, the other stages' rows are in their row files alone."""
    record = whole_record(layout, shard)
    if record is None or record.rejects or layout.shard_bad(shard).exists():
        return False
    headers = {stage: read_header(row_path(layout, stage, shard)) for stage in ENCODE_STAGES}
    return all(
        header is None or header.metadata["fingerprint"] == record.inputs.get(stage)
        for stage, header in headers.items()
    )


def work(layout: Layout, _: Sequence[Format]) -> Removable:
    """All of the work folder but its locks: source index, plan, shards and the rest."""
    locks = layout.locks
    paths = [path for path in files_below(layout.folder) if locks not in path.parents]
    return Removable("work", tuple(paths), "the whole work folder, with the kinds above")


def old_formats(layout: Layout, formats: Sequence[Format]) -> Removable:
    """Finished shards and output of formats that the recipe does not list any more."""
    paths: list[Path] = []
    left = []
    for of_format in (layout.of(name) for name in SHARD_STAGE if name not in formats):
        finished = files_below(of_format.shards_folder)
        known = [*finished, of_format.prepared, of_format.published_state]
        found = [path for path in known if path.is_file() and not _is_linked(path)]
        try:
            found += published_files(of_format)
        except SettingError as error:
            return Removable("old formats", tuple(paths), f"left alone: {error}")
        paths += found
        left += [of_format.format] if found else []
    note = f"the recipe does not list {', '.join(left)} any more" if left else ""
    return Removable("old formats", tuple(sorted(paths)), note)


def output(layout: Layout, _: Sequence[Format]) -> Removable:
    """What was published, in every format. A card of one's own, and files that are none of ours,
    stay."""
    ours: set[Path] = set()
    for name in PREPARE_STAGE:
        try:
            ours |= published_files(layout.of(name))
        except SettingError as error:
            return Removable("output", (), f"left alone: {error}")
    others = len([path for path in files_below(layout.output_dir) if path not in ours])
    note = f"{others:,} other {plural('file', others)} there stay" if others else ""
    return Removable("output", tuple(sorted(ours)), note)


def freed_bytes(paths: Iterable[Path]) -> int:
    """Bytes that removing the files frees: those of a file whose every name is among them."""
    sizes: dict[tuple[int, int], tuple[int, int]] = {}
    names: Counter[tuple[int, int]] = Counter()
    for path in paths:
        status = os.lstat(path)
        identity = status.st_dev, status.st_ino
        sizes[identity] = status.st_size, status.st_nlink
        names[identity] += 1
    return sum(size for key, (size, links) in sizes.items() if names[key] >= links)


def remove(paths: Iterable[Path], *, roots: Iterable[Path]) -> None:
    """The files gone, and every folder below `roots` that is empty then, `roots` included."""
    for path in paths:
        path.unlink(missing_ok=True)
    for root in roots:
        for parent, _, _ in os.walk(root, topdown=False):
            if not os.listdir(parent):
                os.rmdir(parent)


def files_below(folder: Path) -> Iterator[Path]:
    """Every file below a folder, and every link, whatever it leads to."""
    if not _is_folder(folder):
        return
    for parent, folders, names in os.walk(folder):
        links = [name for name in folders if os.path.islink(os.path.join(parent, name))]
        for name in sorted([*names, *links]):
            yield Path(parent, name)


def _is_linked(path: Path) -> bool:
    return path.is_symlink() or path.parent.is_symlink()


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()
