"""A folder of one's own for recipes and data, so that an installed diffprep needs no clone."""

from importlib.resources import files
from pathlib import Path

from diffprep_assets.project import PROJECT_FILE
from diffprep_resources.errors import SettingError

# Each is a link to the clone's own file, so that there is one of each (tested).
TEMPLATE = {
    PROJECT_FILE: PROJECT_FILE,
    "workspace.yaml": "workspace.yaml",
    "env": ".env",
    "gitignore": ".gitignore",
    "dagster.yaml": ".dagster/dagster.yaml",
    "demo.yaml": "recipes/demo.yaml",
    "demo-video.yaml": "recipes/demo-video.yaml",
    "demo-video-i2v.yaml": "recipes/demo-video-i2v.yaml",
    "directory.yaml": "recipes/examples/directory.yaml",
    "huggingface.yaml": "recipes/examples/huggingface.yaml",
    "webdataset.yaml": "recipes/examples/webdataset.yaml",
    "video.yaml": "recipes/examples/video.yaml",
}


def new_project(folder: Path) -> list[Path]:
    """The files of a new project, written into `folder`.

    Raises SettingError when the folder holds a project already, or a file that would be replaced.
    """
    if (folder / PROJECT_FILE).exists():
        raise SettingError(f"{folder} is a project already: it holds {PROJECT_FILE}; work in it")
    targets = {name: folder / path for name, path in TEMPLATE.items()}
    taken = [str(path) for path in targets.values() if path.exists()]
    if taken:
        raise SettingError(f"a new project would replace {', '.join(taken)}; choose another folder")
    template = files("diffprep_assets") / "project_template"
    for name, path in targets.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes((template / name).read_bytes())
    return list(targets.values())
