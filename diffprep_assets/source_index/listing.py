"""The source as it is now, with the parts of all that was there before."""

from diffprep_assets.dataset import Dataset
from diffprep_assets.source_index.parts import SourceParts, assigned_parts
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_resources.errors import SettingError


def listed_index(dataset: Dataset) -> SourceIndex:
    """The index that `source_index` would write now. Raises SettingError for an empty source."""
    old = read_index(dataset.layout.source_index)
    listing = dataset.source.listing()
    if not listing.files:
        folder = dataset.loaded.source_folder
        where = f" {folder[1]}" if folder else ""
        others = ", ".join(f"{count} {suffix}" for suffix, count in listing.other_files.items())
        raise SettingError(
            f"{dataset.loaded.path}: the {dataset.recipe.source.type} source{where} holds "
            f"no picture" + (f"; other files there: {others}" if others else "")
        )
    parts = assigned_parts(
        old.parts if old else SourceParts(),
        ((file.path, file.num_samples) for file in listing.files),
        files_per_part=dataset.source.files_per_part,
        max_samples=dataset.recipe.output.max_samples,
        count=dataset.source.num_samples,
    )
    return SourceIndex(parts, dataset.source.revision(), dict(listing.other_files))
