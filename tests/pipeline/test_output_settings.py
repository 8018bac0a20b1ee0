"""What `output:` and `captions:` ask for, seen in the published dataset."""

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from diffprep_assets.validate.dataset import validate_dataset

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

ReadSamples = Callable[..., dict[str, dict[str, Any]]]


def provenance(project: "ProjectFolder", name: str = "set") -> dict[str, Any]:
    return json.loads(project.layout(name).dataset_json.read_text())


def test_finalize_after_tars_alone_adds_the_index_and_rewrites_no_tar(
    project: "ProjectFolder", read_samples: ReadSamples
):
    project.write_pictures(range(6))
    project.write_recipe(output={"finalize": False})
    assert project.run().ok
    out = project.layout().output_dir
    assert {path.name for path in out.rglob("*") if path.is_file()} == {"000000.tar", "000001.tar"}
    tars = {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in out.glob("*.tar")}
    assert validate_dataset(out, full=True).ok

    report = project.run(changes={"output.finalize": True})
    assert report.ok
    assert report.summaries["shard"].done == 0
    assert {path: (path.stat().st_ino, path.stat().st_mtime_ns) for path in tars} == tars
    assert len(read_samples(out)) == 6
    assert (out / "README.md").exists()


def test_a_split_of_ten_pictures_is_by_sample_and_all_are_read_once(
    project: "ProjectFolder", read_samples: ReadSamples
):
    project.write_pictures(range(10))
    project.write_recipe(output={"train_split": 0.8})
    assert project.run().ok
    out = project.layout().output_dir
    by_split = {split: read_samples(out, split) for split in ("train", "val", "test")}
    assert {split: len(samples) for split, samples in by_split.items()} == {
        **{"train": 8, "val": 1, "test": 1},
    }
    keys = [key for samples in by_split.values() for key in samples]
    assert sorted(keys) == sorted({f"images/{path.name}" for path in images(project)})
    assert provenance(project)["counts"]["splits"] == {"train": 8, "val": 1, "test": 1}


def images(project: "ProjectFolder") -> list[Path]:
    return list((project.pictures / "images").iterdir())


def test_a_shuffle_seed_deals_samples_in_another_order_and_the_same_each_time(
    project: "ProjectFolder", read_samples: ReadSamples
):
    project.write_pictures(range(8))
    orders = {}
    for name in ("one", "again"):
        project.write_recipe(name, output={"shuffle_seed": 1})
        assert project.run(name).ok
        samples = read_samples(project.layout(name).output_dir)
        orders[name] = [key for key, _ in sorted(samples.items(), key=lambda at: at[1]["key"])]
    assert orders["one"] == orders["again"] != sorted(orders["one"])


def test_max_samples_takes_the_first_in_source_order_and_less_than_planned_is_refused(
    project: "ProjectFolder", read_samples: ReadSamples
):
    project.write_pictures(range(8))
    project.write_recipe(output={"max_samples": 5})
    report = project.run()
    assert (report.listed, report.written) == (5, 5)
    names = sorted(f"images/{path.name}" for path in images(project))
    samples = read_samples(project.layout().output_dir)
    assert sorted(samples, key=lambda key: samples[key]["key"]) == names[:5]

    refused = project.run(changes={"output.max_samples": 4})
    assert refused.error is not None
    stage, message = refused.error
    assert stage == "source_index"
    assert "max_samples" in message
    assert "4" in message
    assert "5" in message
    more = project.run(changes={"output.max_samples": 7})
    assert (more.listed, more.written) == (7, 7)


def test_all_captions_of_a_picture_become_samples_of_one_split(
    project: "ProjectFolder", read_samples: ReadSamples
):
    drawings = project.write_pictures(range(6))
    for drawing in drawings:
        path = project.pictures / "captions" / f"{drawing.stem}.txt"
        path.write_text(f"{drawing.stem} first\n{drawing.stem} second\n")
    project.write_recipe(output={"train_split": 0.5}, captions={"choose": "all", "lines": "each"})
    report = project.run()
    assert report.error is None
    assert (report.listed, report.written) == (12, 12)
    out = project.layout().output_dir
    where: dict[str, set[str]] = {}
    captions: dict[str, list[str]] = {}
    for split, count in provenance(project)["counts"]["splits"].items():
        for key, sample in (read_samples(out, split) if count else {}).items():
            picture, _, number = key.partition("::c")
            where.setdefault(picture, set()).add(split)
            captions.setdefault(picture, []).append(sample["caption"])
            assert number in {"0", "1"}
    assert all(len(splits) == 1 for splits in where.values())
    assert Counter(split for splits in where.values() for split in splits)["train"] >= 3
    assert {picture: sorted(some) for picture, some in captions.items()} == {
        f"images/{drawing.name}": [f"{drawing.stem} first", f"{drawing.stem} second"]
        for drawing in drawings
    }


def test_presampled_latents_are_one_draw_from_the_posterior_that_belongs_to_the_sample(
    project: "ProjectFolder", read_samples: ReadSamples
):
    project.write_pictures(range(5))
    tensors = {}
    for name, model in (
        ("mode", {"vae_latent_mode": "resample"}),
        ("drawn", {}),
        ("alone", {"batch_size": 1}),
    ):
        project.write_recipe(name, model=model)
        assert project.run(name).ok
        samples = read_samples(project.layout(name).output_dir)
        tensors[name] = {key: sample["tensors"] for key, sample in samples.items()}
    config = json.loads((project.encoders / "vae" / "config.json").read_text())
    scale, shift = config["scaling_factor"], config["shift_factor"]
    noise = []
    for key, mode in tensors["mode"].items():
        assert tensors["drawn"][key].keys() == {
            *("latents", "prompt_embeds", "pooled_prompt_embeds"),
        }
        drawn = tensors["drawn"][key]["latents"]
        z = drawn / scale + shift
        noise.append((z - mode["mean"]) / torch.exp(0.5 * mode["logvar"]))
        largest = drawn.abs().max()
        assert (tensors["alone"][key]["latents"] - drawn).abs().max() < 1e-5 * largest
    stacked = torch.stack(noise).flatten(1)
    assert abs(stacked.mean()) < 0.05
    assert abs(stacked.std() - 1) < 0.05
    between_samples = torch.corrcoef(stacked) - torch.eye(len(noise))
    assert between_samples.abs().max() < 0.2
