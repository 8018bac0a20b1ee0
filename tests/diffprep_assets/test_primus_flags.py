"""`diffprep diffusion-encoded`, `diffusion-raw`: flags over YAML over defaults, kept as a recipe,
and run."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from diffprep_assets.cli import app
from diffprep_assets.primus_flags import recipe_from_flags
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import RecipeError, SettingError

if TYPE_CHECKING:
    from tests.conftest import ProjectFolder


def written(
    project: "ProjectFolder", *, config: Path | None = None, **flags: Any
) -> dict[str, Any]:
    """The recipe made of flags `section__key=value`."""
    dotted = {name.replace("__", "."): value for name, value in flags.items()}
    path = recipe_from_flags(
        project.project, config=config, flags=dotted, working_folder=project.folder
    )
    assert path == project.folder / "recipes" / "cats.yaml"
    return yaml.safe_load(path.read_text())


@pytest.fixture
def config(project: "ProjectFolder") -> Path:
    path = project.folder / "primus.yaml"
    content = {
        "source": {"type": "directory", "input_dir": "pictures"},
        "output": {"output_dir": "data/cats", "shard_size": 7},
        "model": {"model_path": "${ENCODERS:encoders}", "precision": "fp16", "t5_max_length": 99},
        "image": {"image_size": 256, "center_crop": True},
    }
    path.write_text(yaml.safe_dump(content))
    return path


def test_flags_go_over_yaml_also_when_a_flag_equals_the_default(
    project: "ProjectFolder", config: Path
):
    recipe = written(
        project,
        config=config,
        output__shard_size=1000,
        model__precision="bf16",
        image__image_size=1024,
        image__center_crop=False,
    )
    assert recipe["output"] == {"output_dir": "data/cats", "shard_size": 1000}
    assert recipe["image"] == {"image_size": 1024, "center_crop": False}
    # What no flag says stays as the YAML has it, its variables unresolved.
    assert recipe["model"] == {
        "model_path": "${ENCODERS:encoders}",
        "precision": "bf16",
        "t5_max_length": 99,
    }


def test_paths_of_the_command_line_are_the_working_folders(
    project: "ProjectFolder", tmp_path_factory: pytest.TempPathFactory
):
    outside = tmp_path_factory.mktemp("outside")
    path = recipe_from_flags(
        project.project,
        config=None,
        flags={"source.input_dir": "pictures", "output.output_dir": "cats"},
        working_folder=outside,
    )
    recipe = yaml.safe_load(path.read_text())
    assert recipe["source"]["input_dir"] == str(outside / "pictures")
    recipe = written(project, source__input_dir="pictures", output__output_dir="data/cats")
    assert recipe["source"]["input_dir"] == "pictures"
    assert recipe["output"]["output_dir"] == "data/cats"


def test_a_wrong_config_is_refused_with_its_own_line_and_nothing_is_written(
    project: "ProjectFolder", config: Path
):
    config.write_text(config.read_text().replace("precision:", "precison:"))
    with pytest.raises(RecipeError, match=r"primus.yaml.*precison"):
        written(project, config=config)
    with pytest.raises(SettingError, match="--output-dir"):
        written(project, source__input_dir="pictures")
    assert not (project.folder / "recipes").exists()


@pytest.fixture
def command(project: "ProjectFolder", monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    def invoke(*words: object, code: int = 0) -> Result:
        monkeypatch.chdir(project.folder)
        result = CliRunner().invoke(app, ["diffusion-encoded", *(str(word) for word in words)])
        assert result.exit_code == code, result.output
        return result

    return invoke


def test_the_command_runs_updates_its_own_recipe_and_leaves_somebodys_own_alone(
    project: "ProjectFolder", config: Path, command: Callable[..., Result]
):
    project.write_pictures(range(10))
    words = [
        *("--config", config, "--model-path", project.encoders, "--image-size", 64, "--device"),
        *("cpu", "--t5-max-length", 16, "--no-finalize", "--train-split", 0.8, "--json"),
    ]
    report = json.loads(command(*words).stdout)
    assert (report["dataset"], report["ok"], report["written"]) == ("cats", True, 10)
    out = project.folder / "data" / "cats"
    assert len(list(out.glob("*.tar"))) == 4 == len(list(out.iterdir()))
    path = project.folder / "recipes" / "cats.yaml"
    first = path.read_text()
    assert first.startswith("# Written by `diffprep diffusion-encoded`")
    assert yaml.safe_load(first)["output"]["finalize"] is False

    report = json.loads(command(*words, "--finalize").stdout)
    assert report["stages"]["shard"]["shards"] == {"done": 0, "fresh": 4, "failed": 0}
    assert (out / ".nv-meta" / "split.yaml").exists()
    assert yaml.safe_load(path.read_text())["output"]["finalize"] is True

    path.write_text(path.read_text().split("\n", 1)[1])
    mine = path.read_text()
    refused = command(*words, code=2)
    assert "is a recipe of your own" in refused.stderr.replace("\n", " ")
    assert path.read_text() == mine


def test_a_token_file_is_passed_on_by_name_and_never_its_content(
    project: "ProjectFolder", config: Path
):
    token = project.folder / "token"
    token.write_text("hf_secret")
    token.chmod(0o600)
    recipe = written(project, config=config, auth__hf_token_file="token")
    assert recipe["auth"] == {"hf_token_file": "token"}
    assert "hf_secret" not in (project.folder / "recipes" / "cats.yaml").read_text()


def test_the_raw_command_writes_a_raw_recipe_and_no_command_replaces_the_others(
    project: "ProjectFolder",
):
    flags = {
        "source.type": "directory",
        "source.input_dir": "pictures",
        "output.output_dir": "cats",
        "output.image_quality": 85,
        "output.formats": ["raw"],
    }

    def write(command: str) -> Path:
        return recipe_from_flags(
            project.project,
            config=None,
            flags=flags,
            working_folder=project.folder,
            command=command,
        )

    path = write("diffusion-raw")
    assert path == write("diffusion-raw")
    output = load_recipe(path, base=project.folder).recipe.output
    assert (output.formats, output.image_quality) == (("raw",), 85)
    with pytest.raises(SettingError, match="the recipe that `diffprep diffusion-raw` wrote"):
        write("diffusion-encoded")
