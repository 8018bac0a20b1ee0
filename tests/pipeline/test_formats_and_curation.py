"""One recipe, three tiers, dedup, filters and a skip list: three outputs of one encoding, each read
in full by its reader."""

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from megatron.energon import WorkerConfig, get_loader, get_val_dataset
from PIL import Image
from typer.testing import CliRunner

from diffprep_assets.cli import app
from diffprep_assets.encode_latents.pixels import member_pixels
from diffprep_assets.forecast import forecast
from diffprep_assets.layout import Layout
from diffprep_assets.shard_plan.members import members_of_shard
from diffprep_assets.shard_plan.table import read_shards
from diffprep_assets.status_report import work_lines
from diffprep_resources.mds.reader import open_shard, read_index
from diffprep_resources.trainers.energon import PreencodedTaskEncoder, RawTaskEncoder

if TYPE_CHECKING:
    from tests.conftest import Drawing, ProjectFolder

TIERS = (256, 512, 768)
# Upright sizes that the three tiers take, in two shapes each.
SIZES = ((300, 200), (256, 256), (520, 512), (480, 620), (800, 770), (700, 900))
FORMATS = ("energon", "raw", "mds")
RECIPE: dict[str, Any] = {
    "source": {"type": "huggingface", "hf_dataset": "hub"},
    "output": {
        "formats": list(FORMATS),
        "shard_size": 4,
        "splits": {"train": 0.75, "val": 0.25},
    },
    "model": {"vae_latent_mode": "resample", "batch_size": 2},
    "image": {"image_size": None, "buckets": {"tiers": list(TIERS)}},
    "mds": {"latents": True, "text_latents": True, "caption_columns": {"long": 0.5}},
    "curate": {
        "dedup": {},
        "filters": {"caption_length": [12, None], "where": "score >= 5 and nsfw < 0.2"},
        "skip_lists": "unwanted.txt",
    },
}


def write_source(project: "ProjectFolder", drawings: list["Drawing"]) -> None:
    """A Hub-like data file: pictures, captions, two scores and a second caption."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "image": {"bytes": drawing.data, "path": drawing.name},
            "text": "short" if number == 1 else drawing.caption,
            "long": f"a long caption of picture {number}",
            "score": None if number == 3 else 2 if number == 2 else 7,
            "nsfw": 0.9 if number == 4 else 0.1,
        }
        for number, drawing in enumerate(drawings)
    ]
    path = project.folder / "hub" / "data" / "train-00000-of-00001.parquet"
    path.parent.mkdir(parents=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def smaller_copy(drawing: "Drawing") -> "Drawing":
    """The same picture at two thirds, as a JPEG of lower quality."""
    from dataclasses import replace

    picture = Image.open(io.BytesIO(drawing.data)).convert("RGB")
    size = (picture.width * 2 // 3, picture.height * 2 // 3)
    buffer = io.BytesIO()
    picture.resize(size).save(buffer, "JPEG", quality=80)
    return replace(drawing, data=buffer.getvalue(), name=f"copy-{drawing.name}")


def stored_energon(layout: Layout, encoder: Any) -> dict[str, dict[str, Any]]:
    """Every sample that energon's loader serves, of all splits, by key."""
    found: dict[str, dict[str, Any]] = {}
    config = WorkerConfig(rank=0, world_size=1, num_workers=0)
    for split in ("train", "val"):
        dataset = get_val_dataset(
            layout.output_dir,
            split_part=split,
            batch_size=1,
            worker_config=config,
            task_encoder=encoder,
        )
        for batch in get_loader(dataset):
            key = batch["__key__"][0].rpartition("/")[2]
            assert key not in found
            found[key] = batch
    return found


def streamed(layout: Layout) -> Iterator[dict[str, Any]]:
    """Every sample that an MDS loader with our skip lists serves."""
    for index in sorted(layout.output_dir.rglob("index.json")):
        for entry in read_index(index):
            name = entry["raw_data"]["basename"]
            lists = index.parent.glob(f"{name}.skip.*.json")
            skipped = {number for path in lists for number in json.loads(path.read_bytes())["skip"]}
            with open_shard(index.parent / name) as shard:
                for number, sample in enumerate(shard):
                    if number not in skipped:
                        yield sample


def psnr(left: np.ndarray, right: np.ndarray) -> float:
    error = np.mean((left.astype(np.float64) - right.astype(np.float64)) ** 2)
    return 99.0 if error == 0 else 10 * np.log10(255**2 / error)


@pytest.fixture
def made(
    project: "ProjectFolder", drawing: Any, monkeypatch: pytest.MonkeyPatch
) -> "ProjectFolder":
    drawings = [drawing(number, size=SIZES[number % len(SIZES)]) for number in range(20)]
    # The copies lie in a smaller tier; the larger one stays.
    drawings += [smaller_copy(drawings[number]) for number in (8, 16)]
    write_source(project, drawings)
    project.write_recipe(**RECIPE)
    (project.folder / "unwanted.txt").write_text(
        "# found by looking\ndata/train-00000-of-00001.parquet::7\n"
    )
    monkeypatch.chdir(project.folder)
    report = project.run()
    assert report.error is None
    return project


def check_outputs_agree(project: "ProjectFolder") -> set[str]:
    """The keys that all three readers give, after comparing them sample by sample."""
    layout, dataset = project.layout(), project.dataset()
    energon = stored_energon(layout.of("energon"), PreencodedTaskEncoder())
    raw = stored_energon(layout.of("raw"), RawTaskEncoder())
    mds = {sample["id"]: sample for sample in streamed(layout.of("mds"))}
    assert energon.keys() == raw.keys() == mds.keys()
    members = {
        member.planned.key: member
        for shard in read_shards(layout.shards)
        for member in members_of_shard(layout, shard.shard)
    }
    for key, encoded in energon.items():
        pictured, streamed_sample, member = raw[key], mds[key], members[key]
        pixels = member_pixels(dataset, member)
        height, width, _ = pixels.shape
        assert encoded["captions"] == pictured["captions"] == [streamed_sample["caption"]]
        assert (streamed_sample["width"], streamed_sample["height"]) == (width, height)
        assert tuple(encoded["latents"].shape[-2:]) == (height // 8, width // 8)
        found = pictured["images"][0].permute(1, 2, 0).numpy()
        assert psnr(found, pixels) >= 35
        image = Image.open(io.BytesIO(streamed_sample["image"]))
        assert psnr(np.asarray(image.convert("RGB")), pixels) >= 35
        mean, std = np.split(streamed_sample["img_latent"], 2)
        np.testing.assert_array_equal(mean, encoded["mean"][0].numpy())
        np.testing.assert_allclose(std, np.exp(0.5 * encoded["logvar"][0].numpy()), rtol=1e-6)
        text = encoded["prompt_embeds"][0].numpy()
        np.testing.assert_array_equal(streamed_sample["latent_caption_t5"], text)
        number = int(member.planned.sample.source_key.rpartition("::")[2])
        assert streamed_sample["long"] == f"a long caption of picture {number}"
    return set(energon)


def provenance(layout: Layout) -> dict[str, Any]:
    return json.loads(layout.dataset_json.read_bytes())


def finished(layout: Layout) -> dict[Path, tuple[int, int]]:
    """Inode and time of every finished shard, in the work folder and as published."""
    paths = [
        path
        for root in (layout.folder, layout.of("energon").output_dir)
        for path in root.rglob("*")
        if path.suffix in (".tar", ".mds")
    ]
    return {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in paths}


def test_three_outputs_of_one_encoding_agree_and_a_skip_list_rewrites_no_shard(
    made: "ProjectFolder",
):
    layout = made.layout()
    keys = check_outputs_agree(made)
    # Of 22: short caption, two by the condition, one null, one skipped, two copies.
    assert len(keys) == 22 - 7
    counts = [provenance(layout.of(format))["counts"] for format in FORMATS]
    assert counts[0]["rejects"] == {
        "duplicate": 2,
        "filter_caption_length": 1,
        "filter_null": 1,
        "filter_where": 2,
        "skip_list": 1,
    }
    for name in ("listed", "written", "rejected", "rejects", "skipped", "served", "splits"):
        assert len({json.dumps(count[name]) for count in counts}) == 1, name
    assert (counts[0]["listed"], counts[0]["served"]) == (22, len(keys))
    assert {bucket["tier"] for bucket in counts[0]["buckets"]} == set(TIERS)

    planned = CliRunner().invoke(app, ["plan", "set", "--json", "--no-probe"])
    plan = json.loads(planned.stdout)
    samples, card = plan["samples"], layout.card.read_text("utf-8")
    assert (samples["listed"], samples["served"], samples["splits"]) == (
        *(22, len(keys)),
        counts[0]["splits"],
    )
    assert f"{len(keys):,}" in card
    assert work_lines(forecast(made.dataset())) == ["nothing: all is fresh"]
    before = finished(layout)
    second = sorted(keys)[1]
    Path("more.txt").write_text(f"{second}\n")
    skipped = CliRunner().invoke(app, ["skip", "set", "--list", "more.txt"])
    assert skipped.exit_code == 0, skipped.output
    assert finished(layout) == before
    assert check_outputs_agree(made) == keys - {second}
    counts = [provenance(layout.of(format))["counts"] for format in FORMATS]
    assert [(c["written"], c["skipped"], c["served"]) for c in counts] == [(15, 1, 14)] * 3

    assert CliRunner().invoke(app, ["unskip", "set", "more"]).exit_code == 0
    assert finished(layout) == before
    assert check_outputs_agree(made) == keys
