"""The source pictures of a published dataset, where its recipe, plan and source are still here."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.energon_prepare.provenance import plan_shards
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_assets.project import Project
from diffprep_assets.published_at import published_at
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_resources.errors import DiffprepError, SampleReject


@dataclass(frozen=True, slots=True)
class Original:
    """A sample's picture as it was encoded, uint8 [H, W, 3], or why it cannot be had."""

    pixels: np.ndarray | None
    missing: str = ""


@dataclass(frozen=True)
class Originals:
    """Reads source pictures of one dataset; `missing` says why it can read none."""

    dataset: Dataset | None
    shards: Mapping[str, str] = field(default_factory=dict)
    missing: str = ""
    _members: dict[str, dict[str, Member]] = field(default_factory=dict)

    def of(self, sample: StoredSample) -> Original:
        """The sample's picture, cropped and resized by the code that encoded it."""
        if self.dataset is None:
            return Original(None, self.missing)
        try:
            member = self._member(self.dataset, sample)
            if member is None:
                return Original(None, "the plan does not hold it any more")
            return Original(member_pixels(self.dataset, member))
        except SampleReject as error:
            return Original(None, error.message)
        except (DiffprepError, OSError) as error:
            return Original(None, str(error))

    def _member(self, dataset: Dataset, sample: StoredSample) -> Member | None:
        """The planned sample, unless the plan means another picture by now."""
        shard = self.shards.get(sample.shard, "")
        if shard not in self._members:
            members = members_of_shard(dataset.layout, shard) if shard else []
            self._members[shard] = {row.planned.key: row for row in members}
        member = self._members[shard].get(sample.key)
        if member is None or "image_digest" not in sample.metadata:
            # MDS has no column for the digest.
            same = member is not None and member.planned.sample.source_key == sample.source_key
            return member if same else None
        digest = sample.metadata["image_digest"]
        return member if member.planned.sample.image_digest == digest else None


def originals_of(folder: DatasetFolder, *, project: Project | None) -> Originals:
    """What reads the folder's source pictures, by the recipe of `project` that writes it."""
    if folder.provenance is None:
        return Originals(None, missing="no dataset.json says where it came from")
    published = project and published_at(folder.layout.output_dir, project=project)
    if not published:
        where = "there is no project here" if project is None else f"no recipe in {project.recipes}"
        missing = f"{where}{'' if project is None else ' writes this folder'}"
        return Originals(None, missing=f"{missing}; --project names another")
    if not published.layout.shard_plan.is_file():
        return Originals(None, missing=f"its plan, {published.layout.shard_plan}, is gone")
    return Originals(published.dataset, plan_shards(folder.provenance))
