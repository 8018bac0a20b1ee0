"""The source pictures of a published dataset, where its recipe, plan and source are still here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePosixPath

import numpy as np

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.clip_pixels import clip_pixels
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.energon_prepare.provenance import plan_shards
from diffprep_assets.preview.shown_frames import shown_frames
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_assets.project import Project
from diffprep_assets.published_at import published_at
from diffprep_assets.shard_plan.members import Member, members_of_shard
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_resources.errors import DiffprepError, SampleReject


@dataclass(frozen=True, slots=True)
class Original:
    """A sample's picture as it was encoded, uint8 [H, W, 3], of a clip the frames that are shown,
    [3, H, W, 3]; or why it cannot be had."""

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
            if member.clip is None:
                return Original(member_pixels(self.dataset, member))
            return Original(shown_frames(clip_pixels(self.dataset.source, member)))
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
        return member if member is not None and _is_same(member, sample) else None


def _is_same(member: Member, sample: StoredSample) -> bool:
    """Whether the plan's sample is what the stored one was made of, by what that tells: MDS has no
    column for a digest, FastVideo's rows only the name of a file."""
    planned, told = member.planned.sample, sample.metadata
    for name in ("image_digest", "clip_digest"):
        if name in told:
            return planned.image_digest == told[name]
    if "source_key" in told:
        return planned.source_key == told["source_key"]
    return PurePosixPath(planned.source_key).name == sample.source_key


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
