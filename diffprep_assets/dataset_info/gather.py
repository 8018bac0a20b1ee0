"""The facts of whichever dataset lies in a folder."""

from pathlib import Path

from diffprep_assets.dataset_info.energon import energon_info
from diffprep_assets.dataset_info.facts import DatasetInfo
from diffprep_assets.dataset_info.fastvideo import fastvideo_info
from diffprep_assets.dataset_info.mds import mds_info
from diffprep_assets.project import Project
from diffprep_assets.validate.encoding import encoding_of
from diffprep_resources.errors import SettingError


def dataset_info(path: Path, *, project: Project | None) -> DatasetInfo:
    """What there is to say. Raises SettingError where there is no folder, DiffprepError where the
    folder holds no dataset that can be read."""
    if not path.is_dir():
        raise SettingError(
            f"a dataset is a folder, a recipe's output.output_dir; there is none at {path}"
        )
    encoding = encoding_of(path)
    if encoding == "mds":
        return mds_info(path, project=project)
    if encoding == "fastvideo":
        return fastvideo_info(path, project=project)
    return energon_info(path, encoding=encoding, project=project)
