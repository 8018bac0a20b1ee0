"""dataset.json: what made a published dataset, and what is in it.

Equal content gives equal bytes: there is no time, host or path of the machine in it, other than
what the recipe itself names.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Literal

import xxhash

from diffprep_assets.energon_prepare.names import (
    SPLITS,
    PublishedShard,
    highest_rewrites,
    is_tar_name,
    tar_name,
)
from diffprep_assets.shard.truncation import truncations, truncations_json

FORMAT = "diffprep dataset"
FORMAT_VERSION = 1
PACKAGES = (
    "diffprep",
    "diffusers",
    "huggingface_hub",
    "megatron-energon",
    "numpy",
    "pillow",
    "pyarrow",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
)


@dataclass(frozen=True, slots=True)
class OtherOutput:
    """Another format's output of the same dataset: its folder, seen from this one's, and whether
    the recipe still lists it."""

    format: str
    place: str
    is_kept_up: bool


@dataclass(frozen=True, slots=True)
class DatasetDescription:
    """What publishing cannot see in the shards: the recipe, the models, the source, the rejects.

    `latents_scale` is the VAE's (scaling_factor, shift_factor), `latents_statistics` those of a
    video VAE: mean and deviation by channel.
    `recipe` is the resolved one; `models` maps a role to its identity; `listed` counts the
    source's samples and `rejects` those left out, by code: listed = written + rejected.
    `fingerprints` are those of whole stages; the shards' own are added. `pictures` is the sheet for
    the card, None where there is none; `latents_scale` None where nothing is encoded; `layout` as
    the recipe names it; `warnings` are sentences on what skips do to a data loader.
    """

    dataset: str
    recipe: Mapping[str, Any]
    recipe_hash: str
    models: Mapping[str, Mapping[str, Any]]
    latents_scale: tuple[float, float] | None
    source_revision: str | None
    listed: int
    rejects: Mapping[str, int]
    generation: int = 1
    encoding: str = "preencoded"
    fingerprints: Mapping[str, str] = field(default_factory=dict)
    pictures: bytes | None = None
    layout: Literal["one", "per_bucket"] = "one"
    warnings: tuple[str, ...] = ()
    others: tuple[OtherOutput, ...] = ()
    latents_statistics: tuple[tuple[float, ...], tuple[float, ...]] | None = None


def provenance(
    description: DatasetDescription,
    *,
    shards: Sequence[PublishedShard],
    rewrites: Mapping[str, int],
) -> dict[str, Any]:
    """The content of dataset.json. `rewrites` are the rewrite counts given out so far, by base."""
    return {
        "format": FORMAT,
        "format_version": FORMAT_VERSION,
        "dataset": description.dataset,
        "encoding": description.encoding,
        "layout": description.layout,
        "warnings": list(description.warnings),
        "other_outputs": [asdict(other) for other in description.others],
        "generation": description.generation,
        "recipe_hash": description.recipe_hash,
        "recipe": dict(description.recipe),
        "models": {role: dict(model) for role, model in description.models.items()},
        **_latents(description),
        "source": {"revision": description.source_revision},
        "versions": package_versions(),
        "counts": counts(description, shards),
        "fingerprints": stage_fingerprints(description.fingerprints, shards),
        "shards": [_shard_entry(shard) for shard in shards],
        "names": highest_rewrites([shard.name for shard in shards], known=rewrites),
    }


def _latents(description: DatasetDescription) -> dict[str, Any]:
    if statistics := description.latents_statistics:
        return {"latents": {"mean": list(statistics[0]), "std": list(statistics[1])}}
    if scale := description.latents_scale:
        return {"latents": {"scaling_factor": scale[0], "shift_factor": scale[1]}}
    return {}


def provenance_bytes(content: Mapping[str, Any]) -> bytes:
    """dataset.json as it is written: sorted keys, one value a line."""
    return json.dumps(content, sort_keys=True, indent=2, ensure_ascii=False).encode() + b"\n"


def read_provenance(path: Path) -> dict[str, Any] | None:
    """The content of a dataset.json; None when it is missing, or not one of ours."""
    try:
        content = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        return None
    whole = content.get("format_version") == FORMAT_VERSION and _names_are_sound(content)
    return content if whole else None


def _names_are_sound(content: Mapping[str, Any]) -> bool:
    """False when a name in the file could lead outside the output folder, or is missing."""
    try:
        names = [shard["name"] for shard in content["shards"]]
        names += [tar_name(base, rewrites=int(count)) for base, count in content["names"].items()]
    except (KeyError, TypeError, ValueError, AttributeError):
        return False
    return isinstance(content.get("dataset"), str) and all(is_tar_name(name) for name in names)


def counts(description: DatasetDescription, shards: Sequence[PublishedShard]) -> dict[str, Any]:
    """Samples listed, written and rejected; of those written the skipped, and the served rest;
    written ones by split and by bucket; captions cut short by text encoder."""
    skips = Counter(rule for shard in shards for rule in shard.skipped.values())
    by_split = Counter(dict.fromkeys(SPLITS, 0))
    buckets: dict[tuple[int, int, int, int], dict[str, int]] = {}
    for shard in shards:
        record = shard.record
        by_split[shard.split] += record.num_samples
        bucket = buckets.setdefault(
            (record.tier, record.width, record.height, record.frames),
            {"shards": 0, "samples": 0, "size_bytes": 0, **dict.fromkeys(SPLITS, 0)},
        )
        bucket["shards"] += 1
        bucket["samples"] += record.num_samples
        bucket["size_bytes"] += record.size_bytes
        bucket[shard.split] += record.num_samples
    return {
        "listed": description.listed,
        "written": by_split.total(),
        "rejected": sum(description.rejects.values()),
        "rejects": dict(sorted(description.rejects.items())),
        "skipped": skips.total(),
        "skips": dict(sorted(skips.items())),
        "served": by_split.total() - skips.total(),
        "shards": len(shards),
        "size_bytes": sum(shard.record.size_bytes for shard in shards),
        "truncated": truncations_json(truncations(shard.record for shard in shards)),
        "splits": {split: by_split[split] for split in SPLITS},
        "buckets": [
            {"tier": tier, "width": width, "height": height, **_frames(frames), **bucket}
            for (tier, width, height, frames), bucket in sorted(buckets.items())
        ],
    }


def stage_fingerprints(
    whole: Mapping[str, str], shards: Sequence[PublishedShard]
) -> dict[str, str]:
    """One fingerprint per stage: the whole stages' own, and one over each shard stage's."""
    lines: dict[str, list[str]] = {}
    for shard in shards:
        stages = {**shard.record.inputs, "shard": shard.record.fingerprint}
        for stage, fingerprint in stages.items():
            lines.setdefault(stage, []).append(f"{shard.record.shard} {fingerprint}")
    return {**{stage: _digest(stage_lines) for stage, stage_lines in lines.items()}, **whole}


def package_versions(packages: Iterable[str] = PACKAGES) -> dict[str, str]:
    """Versions of those packages that are installed, without importing any."""
    versions = {}
    for package in packages:
        try:
            versions[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return versions


def plan_shards(output: Mapping[str, Any]) -> dict[str, str]:
    """From a dataset.json's content: the plan's shard key of every published name."""
    return {shard["name"]: shard["shard"] for shard in output["shards"]}


def _shard_entry(shard: PublishedShard) -> dict[str, Any]:
    record = shard.record
    return {
        "name": shard.name,
        "shard": record.shard,
        "split": shard.split,
        "tier": record.tier,
        "width": record.width,
        "height": record.height,
        **_frames(record.frames),
        "num_samples": record.num_samples,
        "num_skipped": len(shard.skipped),
        "size_bytes": record.size_bytes,
        "digest": record.digest,
        "fingerprint": record.fingerprint,
        "inputs": dict(record.inputs),
    }


def _frames(frames: int) -> dict[str, int]:
    """Pictures have none to tell."""
    return {"num_frames": frames} if frames else {}


def _digest(lines: Iterable[str]) -> str:
    return xxhash.xxh3_128_hexdigest("\n".join(sorted(lines)).encode())
