"""Whether the latents of a dataset of clips decode to the clips that they were made of."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from diffprep_assets.dataset import Dataset
from diffprep_assets.encode_latents.clip_pixels import clip_pixels
from diffprep_assets.energon_prepare.provenance import plan_shards
from diffprep_assets.preview.fastvideo import LATENTS as RAW
from diffprep_assets.preview.looks import as_pixels, psnr
from diffprep_assets.preview.sampling import chosen_places, published_folder, stored_sample
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_assets.preview.vae_of import clip_codec_of
from diffprep_assets.project import Project
from diffprep_assets.published_at import published_at
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.validate.report import Check, Failure
from diffprep_resources.encoders.wan_codec import WanCodec
from diffprep_resources.errors import DiffprepError

NAME = "decoded"
# Shares of a clip's own variance. With the same VAE on another device less than NEAR is missed; the
# latents of another clip miss by more than STRANGE.
NEAR = 0.02
STRANGE = 0.2


def decode_clips(
    path: Path, *, count: int, project: Project | None, vae: str | None, device: str | None
) -> Check:
    """The check `decoded` on `count` clips: the clip of the source encoded again is what is stored,
    or, where there is no source, the stored latents come back when they are decoded and encoded
    again. Raises ModelError where no VAE is known."""
    folder = published_folder(path)
    codec = clip_codec_of(folder, vae=vae, project=project, device=device)
    published = project and published_at(path, project=project)
    sources = _Sources(
        published.dataset if published else None,
        plan_shards(folder.provenance) if folder.provenance else {},
    )
    failures: list[Failure] = []
    read: list[_Tried] = []
    for place in chosen_places(folder, count=count, seed=0):
        sample = stored_sample(folder, place)
        found = _tried(sample, codec, sources)
        read.append(found)
        if found.likeness is not None and found.missed > NEAR:
            what = "those of another clip" if found.missed > STRANGE else "off"
            message = (
                f"{found.name}: the source's clip encoded again is {found.missed:.1%} of its "
                f"variance away: what is stored is {what}"
            )
            failures.append(Failure(message, sources.name_of(sample), sample.key))
    return Check(NAME, _words(read), tuple(failures))


@dataclass(frozen=True, slots=True)
class _Tried:
    """One clip: the name of its latents, the share of their variance by which they are missed, and
    the PSNR of what they decode to against the source, None without one."""

    name: str
    missed: float
    likeness: float | None


@dataclass(frozen=True, slots=True)
class _Sources:
    """The project's dataset, and the plan's shards by published name, as far as they are known."""

    dataset: Dataset | None
    shards: Mapping[str, str]

    def name_of(self, sample: StoredSample) -> str:
        """The published shard of the sample; FastVideo's are folders of files."""
        folder = str(Path(sample.shard).parent)
        return sample.shard if sample.shard in self.shards else folder

    def pixels_of(self, sample: StoredSample) -> np.ndarray | None:
        """uint8 [T, H, W, 3]; None where the source, or the plan, has the clip no more."""
        shard = self.shards.get(self.name_of(sample))
        if self.dataset is None or shard is None:
            return None
        try:
            members = members_of_shard(self.dataset.layout, shard)
            member = next((one for one in members if one.planned.key == sample.key), None)
            return None if member is None else clip_pixels(self.dataset.source, member)
        except (DiffprepError, OSError):
            return None


def _tried(sample: StoredSample, codec: WanCodec, sources: _Sources) -> _Tried:
    name = RAW if RAW in sample.arrays else "latents"
    stored = sample.arrays[name]
    raw = stored if name == RAW else codec.raw(stored)
    pixels, decoded = sources.pixels_of(sample), as_pixels(codec.decoded(raw))
    again = codec.mean(decoded if pixels is None else pixels)
    likeness = None if pixels is None else psnr(decoded, pixels)
    return _Tried(name, _missed(raw, again), likeness)


def _missed(stored: np.ndarray, again: np.ndarray) -> float:
    if stored.shape != again.shape:
        return 1.0
    return float(np.square(again - stored).mean() / max(float(stored.var()), 1e-12))


def _words(read: Sequence[_Tried]) -> str:
    if not read:
        return "no clip to decode"
    likeness = [one.likeness for one in read if one.likeness is not None]
    worst = max(one.missed for one in read)
    words = [f"{read[0].name}: {len(read)} encoded again, at most {worst:.2%} away"]
    if likeness:
        words.append(f"decoded, PSNR {min(likeness):.1f} to {max(likeness):.1f} dB")
        words.append(f"median {statistics.median(likeness):.1f}")
    if len(likeness) < len(read):
        words.append(f"{len(read) - len(likeness)} without their source")
    return ", ".join(words)
