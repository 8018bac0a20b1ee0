from pathlib import Path

import pytest
import yaml
from dotenv import dotenv_values

from diffprep_assets.new_project import TEMPLATE, new_project
from diffprep_assets.project import load_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_resources.errors import SettingError

CLONE = Path(__file__).parents[2]


def test_a_new_project_has_every_file_and_loads(tmp_path: Path):
    folder = tmp_path / "deep" / "new"
    written = new_project(folder)
    found = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    assert found == {path.relative_to(folder).as_posix() for path in written}
    assert found >= {
        *("dagster_project.toml", "workspace.yaml", ".env", ".gitignore"),
        *(".dagster/dagster.yaml", "recipes/demo.yaml", "recipes/examples/directory.yaml"),
    }
    project = load_project(folder / "dagster_project.toml")
    assert project.storage_root == folder / "data" / "storage"
    demos = ["demo", "demo-video", "demo-video-i2v"]
    assert sorted(path.stem for path in project.recipe_files()) == demos
    assert load_recipe(project.recipe_path("demo"), base=folder).recipe.image.mode == "buckets"
    assert "load_from" in yaml.safe_load((folder / "workspace.yaml").read_text())
    settings = dotenv_values(folder / ".env")
    assert settings["DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"] == "1"
    # A token never belongs in a file that is committed.
    assert not [name for name in settings if "TOKEN" in name or "KEY" in name]


def test_the_template_is_the_clones_own_files(tmp_path: Path):
    new_project(tmp_path / "new")
    for path in TEMPLATE.values():
        assert (tmp_path / "new" / path).read_bytes() == (CLONE / path).read_bytes(), path


def test_a_project_or_a_file_in_the_way_is_refused_and_left_alone(tmp_path: Path):
    new_project(tmp_path / "new")
    with pytest.raises(SettingError, match="is a project already"):
        new_project(tmp_path / "new")
    (tmp_path / "mine" / "recipes").mkdir(parents=True)
    mine = tmp_path / "mine" / "recipes" / "demo.yaml"
    mine.write_text("my own")
    with pytest.raises(SettingError, match=str(mine)):
        new_project(tmp_path / "mine")
    assert mine.read_text() == "my own"
    assert [path for path in (tmp_path / "mine").rglob("*") if path.is_file()] == [mine]
