import os
from pathlib import Path

import pytest

from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.project import Project

EMIT = "DAGSTER_EMIT_PARTITION_SUBSET_IN_PLANNED_EVENTS"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Project:
    for name in ("DAGSTER_HOME", EMIT, "OTHER"):
        # Set first, so that what the code under test sets is taken back too.
        monkeypatch.setenv(name, "")
    folder = tmp_path / "project"
    folder.mkdir()
    return Project(folder, folder / "work", folder / "recipes")


def test_env_says_where_home_is_with_the_projects_folder_for_pwd(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("PWD", str(tmp_path))
    (project.folder / ".env").write_text(f"DAGSTER_HOME=${{PWD}}/home\n{EMIT}=0\nOTHER=x\n")
    use_dagster_home(project)
    assert os.environ["DAGSTER_HOME"] == str(project.folder / "home")
    assert (project.folder / "home").is_dir()
    assert (os.environ[EMIT], os.environ["OTHER"]) == ("0", "x")
    assert os.environ["PWD"] == str(tmp_path)


def test_without_env_the_home_is_in_the_project_with_settings_that_hide_the_sign_up(
    project: Project,
):
    use_dagster_home(project)
    assert os.environ["DAGSTER_HOME"] == str(project.folder / ".dagster")
    assert os.environ[EMIT] == "1"
    settings = project.folder / ".dagster" / "dagster.yaml"
    assert "telemetry" in settings.read_text()
    settings.write_text("# mine\n")
    use_dagster_home(project)
    assert settings.read_text() == "# mine\n"


def test_the_environment_goes_before_env(
    project: Project, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    (project.folder / ".env").write_text("DAGSTER_HOME=${PWD}/home\n")
    monkeypatch.setenv("DAGSTER_HOME", str(tmp_path / "elsewhere"))
    use_dagster_home(project)
    assert os.environ["DAGSTER_HOME"] == str(tmp_path / "elsewhere")
    assert (tmp_path / "elsewhere").is_dir()
    assert not (tmp_path / "elsewhere" / "dagster.yaml").exists()
