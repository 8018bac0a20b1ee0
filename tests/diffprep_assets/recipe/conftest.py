import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from diffprep_assets.recipe.load import LoadedRecipe, load_recipe
from diffprep_resources.errors import RecipeError

Load = Callable[..., LoadedRecipe]
Refuse = Callable[..., str]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Loads a recipe text as recipes/demo.yaml of a project at `tmp_path`."""

    def load_text(text: str, *, overrides: Mapping[str, object] | None = None) -> LoadedRecipe:
        path = tmp_path / "recipes" / "demo.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return load_recipe(path, base=tmp_path, overrides=overrides)

    return load_text


@pytest.fixture
def refuse(load: Load, tmp_path: Path) -> Refuse:
    """The error of a recipe text, less the path that every line begins with."""

    def refuse_text(text: str, *, overrides: Mapping[str, object] | None = None) -> str:
        with pytest.raises(RecipeError) as caught:
            load(text, overrides=overrides)
        lines = str(caught.value).splitlines()
        start = f"{tmp_path / 'recipes' / 'demo.yaml'}, "
        assert all(line.startswith(start) for line in lines), lines
        return "\n".join(line.removeprefix(start) for line in lines)

    return refuse_text
