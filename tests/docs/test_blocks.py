"""Every fenced block of the README and of docs/: commands are run, recipes loaded, Python executed.

A block that is new is taken in by itself. A command that cannot run in a test is named below, with
the reason, and a name that no page uses any more fails.
"""

import os
import re
import tempfile
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from diffprep_assets.project import PROJECT_FILE, find_project
from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.schema import Recipe

if TYPE_CHECKING:
    from tests.docs.conftest import Reader

ROOT = Path(__file__).parents[2]
README = Path(os.environ.get("DIFFPREP_README", ROOT / "README.md"))
PAGES = [README, *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)

# Commands that no test of this file types, by how they begin, and why.
NOT_HERE = {
    "make demo": "installs from the package index, then runs `diffprep demo`",
    "make test": "runs this very suite",
    "pip install": "asks the package index",
    "diffprep video-encoded": "tests/diffprep_assets/test_video_flags.py",
    "diffprep video-index": "tests/diffprep_assets/test_video_index_command.py",
    "dagster job execute": "tests/pipeline/test_dagster_commands.py",
    "dagster asset materialize": "tests/pipeline/test_dagster_commands.py",
    "diffprep ui": "a server: tests/browser starts and stops it",
}
# YAML that is no recipe, by its first line.
NOT_RECIPES = {"storage:": "Dagster's own settings"}
RECIPE = {"source": {"type": "directory", "input_dir": "pictures"}, "output": {"output_dir": "out"}}


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, and the text between it and the block before it."""

    page: Path
    line: int
    language: str
    text: str
    before: str

    @property
    def where(self) -> str:
        return f"{self.page.name}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    text, end = page.read_text("utf-8"), 0
    for match in FENCE.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        before, end = text[end : match.start()], match.end()
        yield Block(page, line, match[2], textwrap.dedent(match[3]), before)


def commands(block: Block) -> list[str]:
    """The lines of a shell block, continued ones joined, comments left out."""
    joined = re.sub(r"\\\n\s*", "", block.text)
    lines = [line.strip() for line in joined.splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def reason_not_here(command: str) -> str | None:
    return next((why for begin, why in NOT_HERE.items() if command.startswith(begin)), None)


def test_what_the_pages_show_works(reader: "Reader", tmp_path: Path):
    """One test for all, the README first: its project is what the other pages speak of."""
    failures = []
    for page in PAGES:
        reader.folder = reader.project
        for block in blocks(page):
            try:
                check_block(block, reader, tmp_path)
            except Exception as error:
                failures.append(f"{block.where}: {type(error).__name__}: {error}")
    for line, seconds in sorted(reader.times.items(), key=lambda each: -each[1])[:15]:
        print(f"{seconds:6.1f} s  {line}")
    assert not failures, "\n\n".join(failures)


@pytest.mark.long
def test_the_commands_for_dagster_work_as_written(reader: "Reader"):
    reader.folder = reader.project
    for command in shown_commands():
        if command.startswith("dagster "):
            reader.type(command)


def shown_commands() -> list[str]:
    return [
        command
        for page in PAGES
        for block in blocks(page)
        if block.language == "sh"
        for command in commands(block)
    ]


def check_block(block: Block, reader: "Reader", scratch: Path) -> None:
    if block.language == "sh":
        for command in commands(block):
            if reason_not_here(command) is None:
                type_line(command, reader, scratch)
    elif block.language == "yaml":
        check_yaml(block, reader)
    elif block.language == "toml":
        (scratch / PROJECT_FILE).write_text(block.text, "utf-8")
        find_project(scratch, scratch)
    elif block.language == "python":
        os.chdir(reader.project)
        exec(compile(block.text, block.where, "exec"), {"__name__": "docs"})
    else:
        assert block.language in {"", "text", "json"}, f"what is a block of {block.language}?"
        hidden = re.search(r"^(\$ )?(diffprep|dagster|make|pip|hf) ", block.text, re.MULTILINE)
        assert not hidden, f"a command in a block that is not marked sh: {hidden}"


def type_line(command: str, reader: "Reader", scratch: Path) -> None:
    """The line typed in the project, but `diffprep new` beside it in a folder of its own, whose
    name then leads to the shared project."""
    if command.startswith("diffprep new "):
        reader.folder = Path(tempfile.mkdtemp(dir=scratch))
    if command == f"cd {reader.project.name}":
        reader.folder = reader.project
        return
    reader.type(command)


def check_yaml(block: Block, reader: "Reader") -> None:
    """A recipe, or sections of one, loads; a recipe that the text names is put in its place."""
    content: Any = yaml.safe_load(block.text)
    first = block.text.strip().splitlines()[0]
    if first in NOT_RECIPES:
        return
    unknown = set(content) - set(Recipe.model_fields) if isinstance(content, dict) else {first}
    assert not unknown, f"neither a recipe nor named in NOT_RECIPES: {unknown}"
    if {"source", "output"} <= set(content):
        reader.write_recipe(block)
    path = reader.project / "shown.yaml"
    path.write_text(yaml.safe_dump({**RECIPE, **content}), "utf-8")
    load_recipe(path, base=reader.project)


def test_every_command_that_is_not_run_here_is_on_a_page():
    shown = shown_commands()
    assert [start for start in NOT_HERE if not any(line.startswith(start) for line in shown)] == []


def test_the_commands_for_dagster_are_those_that_another_test_runs():
    tested = (ROOT / "tests" / "pipeline" / "test_dagster_commands.py").read_text("utf-8")
    shown = {" ".join(line.split()[:3]) for line in shown_commands() if line.startswith("dagster ")}
    assert shown
    assert [start for start in shown if start not in tested] == []


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("```sh\ndiffprep rnu photos\n```\n", "No such command"),
        ("```yaml\nimage: {image_size: 511}\n```\n", "multiple of 16"),
        ("```yaml\nservices: {}\n```\n", "NOT_RECIPES"),
        ("```python\nimport no_such_package\n```\n", "no_such_package"),
        ("```toml\ndevice = 1\n```\n", "device"),
        ("```\ndiffprep run photos\n```\n", "not marked sh"),
    ],
)
def test_what_does_not_work_is_found_out(
    text: str, message: str, newcomer: "Reader", tmp_path: Path
):
    page = tmp_path / "page.md"
    page.write_text(text, "utf-8")
    (block,) = blocks(page)
    with pytest.raises(Exception, match=message):
        check_block(block, newcomer, tmp_path)
