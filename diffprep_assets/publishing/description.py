"""What dataset.json and the card say of a format's output that its shards do not show."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import DatasetDescription
from diffprep_assets.publishing.left_formats import other_outputs
from diffprep_assets.publishing.totals import SampleTotals
from diffprep_assets.recipe.formats import OF_CLIPS, Format
from diffprep_assets.shard_plan.plan import PlannedShard
from diffprep_assets.shard_plan.skipped import run_warning, share_warning, skip_sizes
from diffprep_assets.shard_plan.table import read_head as read_plan_head
from diffprep_assets.source_index.table import SourceIndex
from diffprep_resources.encoders.base import ClipEncoderFamily

ENCODINGS: dict[Format, str] = {
    "energon": "preencoded",
    "raw": "raw",
    "mds": "mds",
    "fastvideo": "fastvideo",
    "energon_video": "preencoded_video",
}


def description_of(
    dataset: Dataset,
    shards: Sequence[PlannedShard],
    totals: SampleTotals,
    *,
    format: Format,
    index: SourceIndex,
) -> DatasetDescription:
    """The description of the dataset in that format, without pictures."""
    head = read_plan_head(dataset.layout.shard_plan) or {}
    roles = roles_of(dataset, format)
    sizes = skip_sizes(dataset, shards)
    return DatasetDescription(
        dataset=dataset.name,
        recipe=dataset.loaded.resolved,
        recipe_hash=dataset.loaded.recipe_hash,
        models={role: _model(dataset.identities[role]) for role in roles},
        latents_scale=dataset.encoders.latents_scale if "vae" in roles else None,
        latents_statistics=_statistics(dataset, roles),
        source_revision=index.revision,
        listed=totals.listed,
        rejects=totals.rejects,
        generation=head["state"]["generation"],
        encoding=ENCODINGS[format],
        fingerprints={"source_index": index.fingerprint, "shard_plan": head["digest"]},
        layout=dataset.recipe.output.layout,
        warnings=tuple(w for w in (run_warning(sizes), share_warning(sizes)) if w),
        others=other_outputs(dataset, format),
    )


def roles_of(dataset: Dataset, format: Format) -> tuple[str, ...]:
    """The encoders whose output is in the format."""
    if format in OF_CLIPS:
        return tuple(dataset.identities)
    mds = dataset.recipe.mds
    latents = format == "energon" or (format == "mds" and mds.latents)
    text = format == "energon" or (format == "mds" and mds.text_latents)
    return (*(("vae",) if latents else ()), *(("t5", "clip") if text else ()))


def _statistics(
    dataset: Dataset, roles: Sequence[str]
) -> tuple[tuple[float, ...], tuple[float, ...]] | None:
    """Mean and deviation by channel of a video VAE's latents."""
    if "vae" not in roles or not isinstance(dataset.encoders, ClipEncoderFamily):
        return None
    return dataset.encoders.latents_statistics


def _model(identity: Any) -> dict[str, Any]:
    return {**asdict(identity), "fingerprint": identity.fingerprint}
