"""Which dataset of a project is published in a folder, and in which format."""

from dataclasses import dataclass
from pathlib import Path

from diffprep_assets.dataset import Dataset
from diffprep_assets.layout import Layout
from diffprep_assets.project import Project
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import SettingError


@dataclass(frozen=True, slots=True)
class PublishedAt:
    """The dataset, and its layout in the format whose output folder it is."""

    dataset: Dataset
    layout: Layout


def published_at(output_dir: Path, *, project: Project) -> PublishedAt | None:
    """What the project publishes in this folder, in a format that the recipe lists; recipes that
    cannot be read are passed over."""
    wanted = output_dir.resolve()
    for path in project.recipe_files():
        try:
            loaded = load_recipe(path, base=project.folder)
        except SettingError:
            continue
        dataset = Dataset(loaded, project.storage_root)
        for name in loaded.recipe.output.formats:
            layout = dataset.layout.of(name)
            if layout.output_dir.resolve() == wanted:
                return PublishedAt(dataset, layout)
    return None
