import re
from pathlib import Path

import pytest
import yaml

from diffprep_assets.recipe.check import RecipeFile
from diffprep_assets.recipe.contradictions import SOURCE_KEYS
from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_assets.recipe.messages import known_keys

EXAMPLES = Path(__file__).parents[2] / "recipes" / "examples"
SOURCES = ("directory", "huggingface", "webdataset")
NAMES = (*SOURCES, "video")
_COMMENTED = re.compile(r"^(\s*)# ([a-z0-9_]+:)(?=\s)(.*)$")


def load_text(text: str, folder: Path) -> LoadedRecipe:
    path = folder / "example.yaml"
    path.write_text(text, encoding="utf-8")
    return load_recipe(path, base=folder)


def commented_lines(text: str) -> list[int]:
    return [number for number, line in enumerate(text.splitlines()) if _COMMENTED.match(line)]


def uncommented(text: str, number: int) -> str:
    lines = text.splitlines()
    lines[number] = _COMMENTED.sub(r"\1\2\3", lines[number])
    return "\n".join(lines) + "\n"


@pytest.fixture(params=NAMES)
def example(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for variable in ("PICTURES", "FLUX", "CLIPS"):
        monkeypatch.delenv(variable, raising=False)
    return (EXAMPLES / f"{request.param}.yaml").read_text(encoding="utf-8")


def test_there_is_one_example_for_each_source_and_one_for_clips():
    assert sorted(path.stem for path in EXAMPLES.iterdir()) == sorted(NAMES)
    assert sorted(SOURCE_KEYS) == list(SOURCES)


def test_an_example_loads_as_it_is(example: str, tmp_path: Path):
    loaded = load_text(example, tmp_path)
    assert loaded.recipe.source.type in SOURCES
    assert loaded.notes == ()


def test_every_commented_key_is_known_and_shows_its_default(example: str, tmp_path: Path):
    plain = load_text(example, tmp_path)
    numbers = commented_lines(example)
    assert numbers
    for number in numbers:
        changed = load_text(uncommented(example, number), tmp_path)
        assert changed.resolved == plain.resolved, example.splitlines()[number]
        assert changed.execution == plain.execution


def test_all_commented_keys_can_be_switched_on_at_once(example: str, tmp_path: Path):
    text = example
    for number in commented_lines(example):
        if not re.match(r"\s*# (splits|image_keys|caption_keys):", example.splitlines()[number]):
            text = uncommented(text, number)
    assert load_text(text, tmp_path).resolved == load_text(example, tmp_path).resolved


def test_the_examples_together_show_every_key(tmp_path: Path):
    shown: set[tuple[str | int, ...]] = set()
    for name in NAMES:
        text = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8")
        for number in commented_lines(text):
            text = uncommented(text, number)
        shown |= set(_paths(yaml.safe_load(text), ()))
    in_one_line = {("output", "splits"), ("video", "buckets")}
    wanted = {key for key in known_keys(RecipeFile) if key[:2] not in in_one_line}
    assert wanted - shown == set()


def _paths(value: object, where: tuple[str | int, ...]) -> list[tuple[str | int, ...]]:
    if not isinstance(value, dict):
        return [where]
    return [where, *(path for key, item in value.items() for path in _paths(item, (*where, key)))]


def test_a_bare_copy_has_no_line_over_a_hundred_characters():
    for name in NAMES:
        lines = (EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8").splitlines()
        assert max(map(len, lines)) <= 100
        assert all(line.isascii() for line in lines)
