"""The rows of a published FastVideo dataset, told as the samples of a folder of tars are."""

from pathlib import Path

from diffprep_assets.energon_prepare.names import TREES
from diffprep_assets.layout import Layout
from diffprep_assets.preview.stored_sample import Place, StoredSample
from diffprep_assets.validate.fastvideo_trees import read_trees
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check
from diffprep_assets.validate.tar_walk import WalkedSample
from diffprep_resources.errors import DiffprepError
from diffprep_resources.fastvideo.reading import num_rows, read_row
from diffprep_resources.storage.parquet_tables import DamagedTableError

LATENTS = "vae_latent"


def fastvideo_folder(path: Path) -> tuple[DatasetFolder, Check]:
    """The dataset as a folder of files, whose rows are named by their numbers, and whether what is
    said of it is sound."""
    trees, check = read_trees(path)
    splits: dict[str, tuple[str, ...]] = {}
    for tree, names in trees.files.items():
        split = next((name for name, folder in TREES.items() if tree.endswith(folder)), "")
        splits[split] = (*splits.get(split, ()), *names)
    folder = DatasetFolder(
        Layout(root=path.parent, dataset=path.name, output_dir=path),
        {name: _num_rows(path / name) for names in trees.files.values() for name in names},
        {split: names for split, names in splits.items() if split},
        provenance=trees.provenance,
        encoding="fastvideo",
    )
    return folder, check


def fastvideo_rows(path: Path) -> list[WalkedSample]:
    """The rows of a file. Raises DiffprepError where it cannot be read."""
    count = _num_rows(path)
    if count is None:
        raise DiffprepError(f"{path} cannot be read")
    return [WalkedSample(str(number), number, 0, ()) for number in range(count)]


def fastvideo_sample(folder: DatasetFolder, place: Place) -> StoredSample:
    """The row's latents, and what it says of its clip. Raises DiffprepError where it cannot."""
    file = folder.tar(place.shard)
    try:
        # Either schema holds all that is shown.
        row = read_row(file, number=int(place.row.key), workload="t2v")
    except (DamagedTableError, IndexError, KeyError, ValueError, OSError) as error:
        raise DiffprepError(f"{place.shard}, row {place.row.key}: {error}") from error
    latents = row.tensors[LATENTS]
    splits = {name: split for split, names in folder.splits.items() for name in names}
    sizes = {"width": row.width, "height": row.height, "num_frames": row.num_frames}
    return StoredSample(
        shard=place.shard.rpartition("/")[0],
        key=row.id,
        split=splits.get(place.shard, ""),
        caption=row.caption,
        arrays={} if latents is None else {LATENTS: latents},
        metadata={**sizes, "file_name": row.file_name},
    )


def _num_rows(path: Path) -> int | None:
    try:
        return num_rows(path)
    except (DamagedTableError, OSError):
        return None
