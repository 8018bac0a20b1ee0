import json
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

from diffprep_assets.energon_prepare.names import PublishedShard
from diffprep_assets.energon_prepare.provenance import (
    DatasetDescription,
    package_versions,
    plan_shards,
    provenance,
    provenance_bytes,
    read_provenance,
    stage_fingerprints,
)
from diffprep_assets.energon_prepare.publish import FinishedShard

MakeShard = Callable[..., FinishedShard]


def published(shard: FinishedShard, name: str) -> PublishedShard:
    return PublishedShard(name, shard.split, shard.record, Path("unused"))


def test_counts_are_given_in_total_by_split_and_by_bucket(
    make_shard: MakeShard, description: DatasetDescription
) -> None:
    shards = [
        published(make_shard(0, [0, 1, 2]), "64/64x32/000000.tar"),
        published(make_shard(1, [3], split="test"), "64/64x32/000001.tar"),
        published(make_shard(0, [4, 5], size=(32, 64)), "64/32x64/000000.tar"),
    ]
    described = replace(description, listed=10, rejects={"too_small": 3, "no_caption": 1})
    counts = provenance(described, shards=shards, rewrites={})["counts"]
    assert (counts["listed"], counts["written"], counts["rejected"]) == (10, 6, 4)
    assert counts["rejects"] == {"no_caption": 1, "too_small": 3}
    assert counts["splits"] == {"train": 5, "val": 0, "test": 1}
    small = [
        (b["width"], b["height"], b["shards"], b["samples"], b["train"], b["test"])
        for b in counts["buckets"]
    ]
    assert small == [(32, 64, 1, 2, 2, 0), (64, 32, 2, 4, 3, 1)]
    assert counts["size_bytes"] == sum(shard.record.size_bytes for shard in shards)


def test_equal_content_gives_equal_bytes_and_comes_back(
    make_shard: MakeShard, description: DatasetDescription, tmp_path: Path
) -> None:
    shards = [published(make_shard(0, [0]), "000000-2.tar")]
    content = provenance(description, shards=shards, rewrites={"000004": 7})
    assert provenance_bytes(content) == provenance_bytes(json.loads(provenance_bytes(content)))
    (tmp_path / "dataset.json").write_bytes(provenance_bytes(content))
    read = read_provenance(tmp_path / "dataset.json")
    assert read == content
    assert content["names"] == {"000000": 2, "000004": 7}
    assert plan_shards(content) == {"000000-2.tar": "g1-64-64x32-000000"}
    assert content["recipe_hash"] == "0" * 32
    assert content["models"]["vae"]["weights"]["revision"] == "abc"


def test_a_stages_fingerprint_follows_its_shards_and_not_their_order(
    make_shard: MakeShard,
) -> None:
    shards = [published(make_shard(n, [n]), f"00000{n}.tar") for n in range(2)]
    first = stage_fingerprints({"validate": "w"}, shards)
    assert first == stage_fingerprints({"validate": "w"}, shards[::-1])
    assert set(first) == {"encode_latents", "encode_text", "shard", "validate"}
    changed = replace(shards[0].record, inputs={"encode_latents": "lv1", "encode_text": "new"})
    second = stage_fingerprints({}, [replace(shards[0], record=changed), shards[1]])
    assert second["encode_latents"] == first["encode_latents"]
    assert second["encode_text"] != first["encode_text"]


def test_versions_are_those_installed_and_others_are_left_out() -> None:
    versions = package_versions(("torch", "no-such-package-anywhere"))
    assert versions == {"torch": metadata.version("torch")}
