"""Two formats of one dataset, through layouts and skips, without a shard being written again."""

import json
from pathlib import Path

import pytest
from megatron.energon import WorkerConfig, get_loader, get_val_dataset

from diffprep_assets.curate.update import update_curate
from diffprep_assets.dataset import Dataset
from diffprep_assets.energon_prepare.provenance import read_provenance
from diffprep_assets.energon_prepare.update import Prepared, prepare
from diffprep_assets.publishing.prepared import output_stamps
from diffprep_assets.shard_plan.update import update_plan
from diffprep_assets.source_index.table import read_index
from diffprep_assets.validate.update import Validated, validate_published
from diffprep_resources.errors import SettingError
from diffprep_resources.trainers.energon import PreencodedTaskEncoder, RawTaskEncoder

ENCODERS = {"energon": PreencodedTaskEncoder, "raw": RawTaskEncoder}

pytestmark = pytest.mark.filterwarnings("ignore:.*pin_memory")


def published(dataset: Dataset) -> tuple[dict[str, Prepared], Validated]:
    """What a run does from `curate` on, when no shard is stale."""
    index = read_index(dataset.layout.source_index)
    assert index is not None
    update_curate(dataset, index)
    update_plan(dataset, index)
    formats = dataset.recipe.output.formats
    return {name: prepare(dataset, format=name) for name in formats}, validate_published(dataset)


def samples(path: Path, name: str) -> dict[str, tuple[str, str]]:
    """Caption and source key of every sample that energon yields of train, by sample key."""
    dataset = get_val_dataset(
        path,
        split_part="train",
        worker_config=WorkerConfig(rank=0, world_size=1, num_workers=0),
        batch_size=2,
        task_encoder=ENCODERS[name](),
    )
    return {
        key: (caption, metadata["source_key"])
        for batch in get_loader(dataset, watchdog_timeout_seconds=None)
        for key, caption, metadata in zip(
            batch["__key__"], batch["captions"], batch["metadata"], strict=True
        )
    }


def tars(folder: Path) -> dict[Path, tuple[int, int]]:
    return {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in folder.rglob("*.tar*")}


def test_layout_and_skips_rewrite_no_shard_and_reach_every_format(project) -> None:
    project.write_pictures(range(6))
    project.write_recipe(
        output={"formats": ["energon", "raw"], "shard_size": 2},
        image={"image_size": None, "variable_size": True, "max_size": 96},
    )
    report = project.run()
    assert report.ok, report.error
    out = project.layout().output_dir
    folders = {"energon": out, "raw": out / "raw"}
    before = tars(out)
    whole = samples(out, "energon")
    assert len(whole) == 6
    assert samples(out / "raw", "raw") == whole
    assert json.loads(project.layout().validation.read_bytes())["formats"].keys() == folders.keys()
    assert not [name for name in output_stamps(project.layout()) if name.startswith("raw")]

    (project.folder / "bad.txt").write_text("images/p002.png\nimages/p003.jpg\n")
    project.write_recipe_over(output={"layout": "per_bucket"})
    recipe = project.folder / "recipes/set.yaml"
    recipe.write_text(recipe.read_text() + "curate: {skip_lists: [bad.txt]}\n")
    prepared, validated = published(project.dataset())
    assert all(check.passed for check in validated.checks.values()), validated.words
    assert {"raw_loader", "raw_pictures", "loader", "agreement"} <= validated.checks.keys()
    left = {
        key: told for key, told in whole.items() if "p002" not in told[1] and "p003" not in told[1]
    }
    assert len(left) == 4
    for name, folder in folders.items():
        assert samples(folder / "metadataset.yaml", name) == left
        assert prepared[name].skipped == 2
        counts = (read_provenance(folder / "dataset.json") or {})["counts"]
        assert (counts["listed"], counts["written"], counts["served"]) == (6, 6, 4)
        assert counts["skips"] == {"skip_list:bad.txt": 2}
        assert "4 served to a trainer = 6 written - 2 skipped" in (folder / "README.md").read_text()

    recipe.write_text(recipe.read_text().replace("curate: {skip_lists: [bad.txt]}\n", ""))
    project.write_recipe_over(output={"layout": "one", "formats": ["energon"]})
    prepared, validated = published(project.dataset())
    assert samples(out, "energon") == whole
    assert tars(out) == before
    # raw is listed no more: it stays as it was, and says so.
    (note,) = prepared["energon"].notes
    assert "output.formats lists raw no more" in note
    assert "Not kept up" in (out / "raw/README.md").read_text()
    assert "- [raw](raw): the recipe lists it no more" in (out / "README.md").read_text()
    assert "agreement" not in validated.checks

    project.write_recipe_over(output={"formats": ["raw", "energon"]})
    with pytest.raises(SettingError, match="the first format cannot change"):
        project.dataset().claim()
