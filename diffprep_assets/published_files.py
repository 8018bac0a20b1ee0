"""Every file that a dataset has put into the output folder of a format."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from diffprep_assets.energon_prepare.card import MARKER
from diffprep_assets.energon_prepare.card_pictures import is_ours
from diffprep_assets.energon_prepare.folders import folder_layout, folder_of, our_metadataset
from diffprep_assets.energon_prepare.index import MetaFiles
from diffprep_assets.energon_prepare.metadata_files import empty_files, idx_path
from diffprep_assets.energon_prepare.output_state import load_state
from diffprep_assets.fastvideo_prepare.clips_list import clips_lists
from diffprep_assets.fastvideo_prepare.validation_set import validation_files
from diffprep_assets.layout import Layout
from diffprep_assets.mds_prepare.folders import SIDECAR, is_our_sidecar
from diffprep_resources.mds.layout import INDEX_NAME


def published_files(layout: Layout) -> set[Path]:
    """Files of ours that are there, in no folder that is a link to elsewhere; a card of somebody's
    own is none. Raises SettingError where the folder is another dataset's."""
    names = list(load_state(layout).files)
    of_format = {"mds": _mds_files, "fastvideo": _fastvideo_files}.get(
        layout.format, _energon_files
    )
    known = [
        *(layout.output_dir / name for name in names),
        *of_format(layout, names),
        layout.dataset_json,
    ]
    if layout.card_pictures.is_file() and is_ours(layout.card_pictures):
        known.append(layout.card_pictures)
    if _is_our_card(layout.card):
        known.append(layout.card)
    return {path for path in known if _is_there(path, layout)}


def _energon_files(layout: Layout, names: Iterable[str]) -> Iterator[Path]:
    yield from (idx_path(layout, name) for name in names)
    if our_metadataset(layout) is not None:
        yield layout.metadataset
    for folder in {"", *map(folder_of, names)}:
        here = folder_layout(layout, folder)
        meta = MetaFiles(here.nv_meta)
        if not folder or meta.is_ours:
            yield from meta.all()
            yield from empty_files(here)


def _mds_files(layout: Layout, names: Iterable[str]) -> Iterator[Path]:
    for folder in {folder_of(name) for name in names}:
        place = layout.output_dir / folder
        yield place / INDEX_NAME
        yield from (path for path in place.glob(f"*{SIDECAR}*.json") if is_our_sidecar(path))


def _fastvideo_files(layout: Layout, names: Iterable[str]) -> Iterator[Path]:
    for name in names:
        yield from (layout.output_dir / name).glob("*.parquet")
    yield from validation_files(layout.output_dir)
    yield from clips_lists(layout.output_dir)


def _is_there(path: Path, layout: Layout) -> bool:
    between = (layout.output_dir / part for part in path.relative_to(layout.output_dir).parents)
    linked = any(part.is_symlink() for part in between if part != layout.output_dir)
    return not linked and (path.is_file() or path.is_symlink())


def _is_our_card(path: Path) -> bool:
    try:
        return MARKER in path.read_text("utf-8", errors="replace")
    except OSError:
        return False
