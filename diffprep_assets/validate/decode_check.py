"""Whether latents decode to the pictures that they were made of; names what is wrong with them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from diffprep_assets.preview.looks import as_pixels, psnr
from diffprep_assets.preview.originals import Originals, originals_of
from diffprep_assets.preview.sampling import chosen_places, published_folder, stored_sample
from diffprep_assets.preview.stored_sample import StoredSample
from diffprep_assets.preview.vae_of import codec_of
from diffprep_assets.project import Project
from diffprep_assets.validate.latent_readings import UNLIKE, Reading, best_reading, faults
from diffprep_assets.validate.metadata import DatasetFolder
from diffprep_assets.validate.report import Check, Failure
from diffprep_assets.validate.round_trip import round_trip_faults
from diffprep_resources.encoders.vae_codec import VaeCodec

NAME = "decoded"
# The share of a sample's own variance left over when its latents are those of another picture.
STRANGE = 0.2
# Raw posterior means carry neither factor.
RAW = (1.0, 0.0)


@dataclass(slots=True)
class _Samples:
    """Those with a source picture beside them, and those without."""

    paired: list[tuple[StoredSample, np.ndarray]] = field(default_factory=list)
    alone: list[StoredSample] = field(default_factory=list)
    missing: str = ""


def decode_and_judge(
    path: Path, *, count: int, project: Project | None, vae: str | None, device: str | None
) -> Check:
    """`decode_check` on the dataset in `path`. Raises ModelError where no VAE is known."""
    folder = published_folder(path)
    return decode_check(
        folder,
        count=count,
        seed=0,
        codec=codec_of(folder, vae=vae, project=project, device=device),
        originals=originals_of(folder, project=project),
    )


def decode_check(
    folder: DatasetFolder, *, count: int, seed: int, codec: VaeCodec, originals: Originals
) -> Check:
    """The check `decoded` on `count` samples. Where source pictures are at hand they decide; where
    there are none, the latents are decoded and encoded again."""
    samples = _read(folder, count=count, seed=seed, originals=originals)
    failures: list[Failure] = []
    words = []
    arrays = {name for sample in _all(samples) for name in sample.arrays if name != "logvar"}
    for name in sorted(arrays):
        factors = RAW if name == "mean" else (codec.facts.scaling_factor, codec.facts.shift_factor)
        if samples.paired:
            found, said = _against_source(samples.paired, name, factors=factors, codec=codec)
        else:
            found, said = _against_itself(samples.alone, name, factors=factors, codec=codec)
        failures += found
        words.append(f"{name}: {said}")
    if samples.missing:
        where = f"{len(samples.alone)} without their source" if samples.paired else "no source"
        words.append(f"{where} ({samples.missing})")
    return Check(NAME, "; ".join(words) or "no sample to decode", tuple(failures))


def _read(folder: DatasetFolder, *, count: int, seed: int, originals: Originals) -> _Samples:
    samples = _Samples()
    for place in chosen_places(folder, count=count, seed=seed):
        sample = stored_sample(folder, place)
        original = originals.of(sample)
        if original.pixels is None:
            samples.alone.append(sample)
            samples.missing = samples.missing or original.missing
        else:
            samples.paired.append((sample, original.pixels))
    return samples


def _all(samples: _Samples) -> list[StoredSample]:
    return [*(sample for sample, _ in samples.paired), *samples.alone]


def _against_source(
    paired: Sequence[tuple[StoredSample, np.ndarray]],
    name: str,
    *,
    factors: tuple[float, float],
    codec: VaeCodec,
) -> tuple[list[Failure], str]:
    """Faults of the array `name`, and how near the decoded pictures are to the source's."""
    stored = [sample.arrays[name] for sample, _ in paired]
    pictures = [picture for _, picture in paired]
    scale, shift = factors
    as_stored = _psnrs([codec.decoded(s / scale + shift) for s in stored], pictures)
    said = _range_words(as_stored)
    reading = best_reading(stored, pictures, encode=codec.mean)
    sentences = faults(reading, scale=scale, shift=shift)
    if sentences:
        gain = _gain(reading, stored, pictures, codec=codec)
        return [Failure(f"{name}: {sentence}{gain}") for sentence in sentences], said
    strangers = [
        Failure(f"{name}: they are not those of its picture", sample.shard, sample.key)
        for (sample, _), share in zip(paired, reading.by_sample, strict=True)
        if share > STRANGE
    ]
    return strangers, said


def _gain(
    reading: Reading,
    stored: Sequence[np.ndarray],
    pictures: Sequence[np.ndarray],
    *,
    codec: VaeCodec,
) -> str:
    """What undoing the faults makes of the decoded pictures."""
    undone = [reading.undone(codec.decoded(reading.unscaled(s))) for s in stored]
    whole = [picture for picture in undone if picture is not None]
    if reading.unexplained > UNLIKE or len(whole) < len(undone):
        return ""
    return f"; undone, {_range_words(_psnrs(whole, pictures))}"


def _against_itself(
    alone: Sequence[StoredSample],
    name: str,
    *,
    factors: tuple[float, float],
    codec: VaeCodec,
) -> tuple[list[Failure], str]:
    scale, shift = factors
    trip, sentences = round_trip_faults(
        [sample.arrays[name] for sample in alone],
        scale=scale,
        shift=shift,
        encode=codec.mean,
        decode=codec.decoded,
    )
    said = (
        f"{len(alone)} decoded and encoded again come back within {trip.missed:.1%} of their "
        "variance"
    )
    return [
        Failure(f"{name}: {sentence} (judged without the source)") for sentence in sentences
    ], said


def _psnrs(decoded: Sequence[np.ndarray], pictures: Sequence[np.ndarray]) -> list[float]:
    found = (psnr(as_pixels(d), p) for d, p in zip(decoded, pictures, strict=True))
    return [value for value in found if value is not None]


def _range_words(values: Sequence[float]) -> str:
    if not values:
        return "no decoded picture has its source's size"
    return (
        f"{len(values)} decoded, PSNR {min(values):.1f} to {max(values):.1f} dB "
        f"(median {statistics.median(values):.1f})"
    )
