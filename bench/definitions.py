"""Seconds of `dagster definitions validate` over many recipes.

python bench/definitions.py [--recipes 50] [--repeats 3]
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from diffprep_assets.dagster_home import use_dagster_home
from diffprep_assets.project import find_project

RECIPE = """\
source: {{type: directory, input_dir: pictures/{number}}}
output: {{output_dir: out/{number}, shard_size: 1000}}
model: {{model_path: encoders}}
image: {{image_size: 512, center_crop: true}}
schedule: "0 3 * * *"
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recipes", type=int, default=50)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "dagster_project.toml").touch()
        (folder / "recipes").mkdir()
        for number in range(options.recipes):
            path = folder / f"recipes/set{number:03d}.yaml"
            path.write_text(RECIPE.format(number=number))
        use_dagster_home(find_project(folder, folder))
        seconds = sorted(validate(folder) for _ in range(options.repeats))
    shown = ", ".join(f"{value:.2f}" for value in seconds)
    print(f"definitions validate over {options.recipes} recipes: {shown} s (target: under 5)")


def validate(folder: Path) -> float:
    dagster = Path(sys.executable).with_name("dagster")
    command = [dagster, "definitions", "validate", "-m", "diffprep_assets.definitions"]
    begin = time.monotonic()
    subprocess.run(command, cwd=folder, env=os.environ, check=True, capture_output=True)
    return time.monotonic() - begin


if __name__ == "__main__":
    main()
