"""`diffprep video-encoded`: the flags of FastVideo's guide, kept as a recipe, and run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.recipe.load import load_recipe

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder

# The guide's own command, less its launcher; the folders are the test's.
GUIDE = [
    *("--model_path", "encoders", "--mode", "preprocess", "--workload_type", "t2v"),
    *("--preprocess.video_loader_type", "torchvision"),
    *("--preprocess.dataset_type", "merged"),
    *("--preprocess.dataset_path", "data/crush-smol/"),
    *("--preprocess.dataset_output_dir", "data/crush-smol_processed_t2v/"),
    *("--preprocess.preprocess_video_batch_size", "2"),
    *("--preprocess.dataloader_num_workers", "0"),
    *("--preprocess.max_height", "480", "--preprocess.max_width", "832"),
    *("--preprocess.num_frames", "77", "--preprocess.train_fps", "16"),
    *("--preprocess.samples_per_file", "8", "--preprocess.flush_frequency", "8"),
    *("--preprocess.video_length_tolerance_range", "5"),
]
WRITTEN = {
    "source": {"type": "directory", "input_dir": "data/crush-smol"},
    "output": {"output_dir": "data/crush-smol_processed_t2v"},
    "model": {"model_path": "encoders", "batch_size": 2},
    "video": {
        "workload": "t2v",
        "loader": "torchvision",
        "max_height": 480,
        "max_width": 832,
        "num_frames": 77,
        "train_fps": 16,
        "samples_per_file": 8,
        "video_length_tolerance_range": 5,
    },
}


@pytest.fixture
def command(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Types the command in the project, where there are neither encoders nor clips: it writes the
    recipe, and the run then says what is missing."""

    def invoke(*words: object) -> Result:
        monkeypatch.chdir(project.folder)
        result = CliRunner().invoke(app, ["video-encoded", *(str(word) for word in words)])
        assert result.exit_code in (1, 2), result.output
        return result

    return invoke


def recipe_of(project: "ProjectFolder", name: str = "crush-smol_processed_t2v") -> dict[str, Any]:
    path = project.folder / "recipes" / f"{name}.yaml"
    assert path.read_text().startswith("# Written by `diffprep video-encoded`")
    load_recipe(path, base=project.folder)
    return yaml.safe_load(path.read_text())


def test_the_guides_command_writes_the_recipe_and_tells_what_has_no_effect(
    project: "ProjectFolder", command: Callable[..., Result]
):
    result = command(*GUIDE)
    assert recipe_of(project) == WRITTEN
    told = result.stderr
    assert "--preprocess.dataloader_num_workers has no effect" in told
    assert "--preprocess.flush_frequency has no effect" in told
    assert "encoders" in told


@pytest.mark.parametrize(
    "spelt",
    [
        lambda word: word.replace("--preprocess.", "--"),
        lambda word: word.replace("_", "-") if word.startswith("--") else word,
    ],
)
def test_flags_are_taken_without_their_section_and_with_dashes(
    project: "ProjectFolder", command: Callable[..., Result], spelt: Callable[[str], str]
):
    command(*map(spelt, GUIDE))
    assert recipe_of(project) == WRITTEN


def test_further_flags_and_a_config_beneath_them(
    project: "ProjectFolder", command: Callable[..., Result]
):
    config = project.folder / "base.yaml"
    content = {
        "source": {"type": "huggingface", "hf_dataset": "owner/clips"},
        "output": {"output_dir": "out/x", "splits": {"train": 0.5, "val": 0.5}},
        "video": {"workload": "i2v", "num_frames": 17, "train_fps": 8},
    }
    config.write_text(yaml.safe_dump(content))
    command(
        *("--config", config, "--train-fps", "24000/1001", "--do_temporal_sample"),
        *("--preprocess.seed", 3, "--speed_factor", 1.5, "--formats", "fastvideo,energon_video"),
        *("--model_path", "encoders"),
    )
    recipe = recipe_of(project, "x")
    assert recipe["source"] == content["source"]
    assert recipe["output"]["formats"] == ["fastvideo", "energon_video"]
    assert recipe["output"]["splits"] == {"train": 0.5, "val": 0.5}
    assert recipe["video"] == {
        **{"workload": "i2v", "num_frames": 17, "train_fps": "24000/1001"},
        **{"do_temporal_sample": True, "seed": 3, "speed_factor": 1.5},
    }


def test_a_dataset_of_the_hub_and_one_that_says_no_type(
    project: "ProjectFolder", command: Callable[..., Result]
):
    places = ("--model_path", "encoders", "--dataset_output_dir", "out/x", "--dataset_path")
    command(*places, "owner/clips", "--dataset_type", "hf")
    assert recipe_of(project, "x")["source"] == {"type": "huggingface", "hf_dataset": "owner/clips"}
    (project.folder / "clips").mkdir()
    command(*places, "clips")
    assert recipe_of(project, "x")["source"] == {"type": "directory", "input_dir": "clips"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--mode", "inference"), "--mode must be preprocess"),
        (("--preprocess.dataset_type", "folder"), "must be one of merged, hf, got folder"),
        (("--preprocess.num_frames", 76), "the nearest is 77"),
        (("--preprocess.max_height", 470), "the nearest is 464"),
        (("--preprocess.drop_short_ratio", 0.5), "drop_short_ratio"),
        (("--preprocess.training_cfg_rate", 0.1), "training_cfg_rate"),
    ],
)
def test_what_cannot_be_done_is_refused_with_the_way_out(
    command: Callable[..., Result], words: tuple[object, ...], message: str
):
    result = command(*GUIDE, *words)
    assert result.exit_code == 2
    assert message in result.stderr.replace("\n", " ")


def test_a_recipe_of_somebodys_own_is_left_alone(
    project: "ProjectFolder", command: Callable[..., Result]
):
    path = project.folder / "recipes" / "crush-smol_processed_t2v.yaml"
    path.parent.mkdir()
    path.write_text("mine: true\n")
    assert "is a recipe of your own" in command(*GUIDE).stderr.replace("\n", " ")
    assert path.read_text() == "mine: true\n"
    result = command("--preprocess.dataset_path", "clips")
    assert "--preprocess.dataset_output_dir" in result.stderr
    result = command("--preprocess.dataset_output_dir", "out/y", "--json")
    assert "give --preprocess.dataset_path" in result.stderr
    assert not (Path(project.folder) / "recipes" / "y.yaml").exists()


def test_the_run_that_fails_still_prints_its_object(command: Callable[..., Result]):
    report = json.loads(command(*GUIDE, "--json").stdout)
    assert report["ok"] is False
