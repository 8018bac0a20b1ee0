from pathlib import Path

import pytest

from diffprep_assets.project import PROJECT_VARIABLE, ProjectSettings, find_project
from diffprep_resources.errors import SettingError


@pytest.fixture(autouse=True)
def _no_project_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(PROJECT_VARIABLE, raising=False)


def make_project(folder: Path, text: str = "") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "dagster_project.toml").write_text(text, encoding="utf-8")
    return folder


def test_an_empty_file_gives_every_default(tmp_path: Path):
    project = find_project(make_project(tmp_path))
    assert project.folder == tmp_path
    assert project.storage_root == tmp_path / "data" / "storage"
    assert project.recipes == tmp_path / "recipes"
    assert project.devices == ()
    assert project.lock_wait_minutes == 60
    assert project.cpu_workers is None
    assert project.gpu_op_tags == {}


def test_every_setting_is_read(tmp_path: Path):
    text = """
        storage_root = "/mnt/storage"
        recipes = "sets"
        devices = ["cuda:0", "cuda:1"]
        lock_wait_minutes = 5
        cpu_workers = 4
        [gpu_op_tags."dagster-k8s/config".container_config.resources.limits]
        "nvidia.com/gpu" = 1
    """
    project = find_project(make_project(tmp_path, text))
    assert project.storage_root == Path("/mnt/storage")
    assert project.recipes == tmp_path / "sets"
    assert project.devices == ("cuda:0", "cuda:1")
    assert project.lock_wait_minutes == 5
    assert project.cpu_workers == 4
    limits = {"container_config": {"resources": {"limits": {"nvidia.com/gpu": 1}}}}
    assert project.gpu_op_tags == {"dagster-k8s/config": limits}


def test_every_setting_says_what_it_is():
    assert all(field.description for field in ProjectSettings.model_fields.values())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "\nstorageroot = 'x'\n",
            "line 2: storageroot is not a known key; did you mean storage_root?",
        ),
        ("a = 1\nrecipes = 5\n", "line 2: recipes must be text, got 5"),
        ("devices = 'cuda:0'\n", 'line 1: devices must be a list, got "cuda:0"'),
        ("devices = ['gpu']\n", "line 1: devices[0] must be cpu, cuda, a numbered one"),
        ("devices = ['cpu', 'cpu']\n", "line 1: devices must not name a device twice"),
        ("lock_wait_minutes = -1\n", "line 1: lock_wait_minutes must be at least 0, got -1"),
        ("lock_wait_minutes = true\n", "line 1: lock_wait_minutes must be a number, got true"),
        ("lock_wait_minutes = inf\n", "line 1: lock_wait_minutes must be a finite number"),
        ("cpu_workers = 0\n", "line 1: cpu_workers must be at least 1, got 0"),
        ("\ngpu_op_tags = 3\n", "line 2: gpu_op_tags must be a mapping"),
        ("recipes = ''\n", "line 1: recipes must not be empty"),
        ("recipes = \n", "this is not TOML"),
        ("recipes = 'a'\nrecipes = 'b'\n", "this is not TOML"),
    ],
)
def test_wrong_settings_are_refused_with_file_and_line(tmp_path: Path, text: str, message: str):
    make_project(tmp_path, text)
    with pytest.raises(SettingError) as caught:
        find_project(tmp_path)
    assert message in str(caught.value)
    assert str(tmp_path / "dagster_project.toml") in str(caught.value)


def test_the_project_is_found_from_a_folder_within_it(tmp_path: Path):
    make_project(tmp_path)
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    assert find_project(inner).folder == tmp_path
    make_project(tmp_path / "a")
    assert find_project(inner).folder == tmp_path / "a"


def test_named_by_hand_beats_the_variable_beats_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    here, named, explicit = (make_project(tmp_path / name) for name in ("a", "b", "c"))
    monkeypatch.setenv(PROJECT_VARIABLE, str(named))
    assert find_project(here).folder == named
    assert find_project(here, explicit).folder == explicit
    assert find_project(here, explicit / "dagster_project.toml").folder == explicit


def test_an_empty_variable_names_no_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv(PROJECT_VARIABLE, "")
    assert find_project(make_project(tmp_path)).folder == tmp_path


def test_a_named_folder_without_a_project_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make_project(tmp_path)
    with pytest.raises(SettingError, match=r"--project is .*away, but there is no dagster_project"):
        find_project(tmp_path, tmp_path / "away")
    monkeypatch.setenv(PROJECT_VARIABLE, str(tmp_path / "gone"))
    with pytest.raises(SettingError, match=r"DIFFPREP_PROJECT is .*gone"):
        find_project(tmp_path)


def test_no_project_anywhere_says_how_to_make_one(tmp_path: Path):
    with pytest.raises(SettingError, match=r"no dagster_project\.toml in .*diffprep new DIR"):
        find_project(tmp_path)


def test_recipes_are_found_by_name_and_by_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    project = find_project(make_project(tmp_path))
    recipes = tmp_path / "recipes"
    (recipes / "examples").mkdir(parents=True)
    for name in ("demo.yaml", "my.ds.yml", ".hidden.yaml", "notes.txt", "examples/x.yaml"):
        (recipes / name).write_text("")
    assert [path.name for path in project.recipe_files()] == ["demo.yaml", "my.ds.yml"]
    assert project.recipe_path("demo") == recipes / "demo.yaml"
    assert project.recipe_path("my.ds") == recipes / "my.ds.yml"
    assert project.recipe_path("recipes/examples/x.yaml") == recipes / "examples" / "x.yaml"

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "own.yaml").write_text("")
    monkeypatch.chdir(elsewhere)
    assert project.recipe_path("own.yaml") == elsewhere / "own.yaml"
    assert project.recipe_path(elsewhere / "own.yaml") == elsewhere / "own.yaml"


def test_an_unknown_recipe_is_refused_naming_the_known_ones(tmp_path: Path):
    project = find_project(make_project(tmp_path))
    with pytest.raises(SettingError, match=r"no recipe demo in .*there is none yet"):
        project.recipe_path("demo")
    (tmp_path / "recipes").mkdir()
    for name in ("demo", "cats"):
        (tmp_path / "recipes" / f"{name}.yaml").write_text("")
    with pytest.raises(SettingError, match=r"did you mean demo\? \(known: cats, demo\)"):
        project.recipe_path("dem")
    with pytest.raises(SettingError, match=r"no recipe file gone\.yaml"):
        project.recipe_path("gone.yaml")


def test_two_files_of_one_name_are_refused_naming_both(tmp_path: Path):
    project = find_project(make_project(tmp_path))
    (tmp_path / "recipes").mkdir()
    for suffix in ("yaml", "yml"):
        (tmp_path / "recipes" / f"demo.{suffix}").write_text("")
    with pytest.raises(SettingError, match=r"demo\.yaml and .*demo\.yml are both recipe demo"):
        project.recipe_path("demo")


def test_leases_lie_apart_for_each_machine_since_storage_may_be_shared(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    make_project(tmp_path)
    project = find_project(tmp_path)
    here = project.lease_folder
    monkeypatch.setattr("socket.gethostname", lambda: "another")
    assert project.lease_folder != here
    assert project.lease_folder.parent == here.parent == project.storage_root / ".devices"
