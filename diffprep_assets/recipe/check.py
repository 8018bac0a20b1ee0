"""Whether what a recipe file holds is valid: keys, types, limits, contradictions, all at once."""

import copy
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError, create_model

from diffprep_assets.recipe.contradictions import contradictions, without_empty
from diffprep_assets.recipe.execution import RECIPE_KEYS, ExecutionSettings
from diffprep_assets.recipe.messages import problems_of
from diffprep_assets.recipe.problems import Location, Problem
from diffprep_assets.recipe.schema import Model, Recipe

_INVALID = object()


def _model_section() -> type[BaseModel]:
    fields = ExecutionSettings.model_fields
    extra: dict[str, Any] = {key: (fields[key].annotation, fields[key]) for key in RECIPE_KEYS}
    return create_model("Model", __base__=Model, **extra)


# A recipe as its file holds it, with the two execution settings under `model`.
RecipeFile = create_model(
    "RecipeFile",
    __base__=Recipe,
    model=(_model_section(), Recipe.model_fields["model"]),
)


def check_recipe(
    data: Mapping[object, object], *, written: Mapping[Location, str]
) -> tuple[Recipe, ExecutionSettings] | list[Problem]:
    """The recipe and its execution settings, or every problem that there is."""
    try:
        RecipeFile.model_validate(data)
    except ValidationError as error:
        found = problems_of(error, model=RecipeFile, written=written)
        own = [problem for problem in found if problem.where]
        rest = _without_invalid(data, [problem.where for problem in own])
        return own + contradictions(without_empty(rest))
    recipe = {str(key): value for key, value in data.items()}
    section = recipe.get("model")
    model = dict(section) if isinstance(section, Mapping) else {}
    execution = {key: model.pop(key) for key in RECIPE_KEYS if key in model}
    given = {key: value for key, value in execution.items() if value is not None}
    if recipe.get("video") is not None:
        # A clip is as many pixels as a whole batch of pictures.
        given.setdefault("batch_size", 1)
    recipe["model"] = model
    return Recipe.model_validate(recipe), ExecutionSettings.model_validate(given)


def _without_invalid(data: Mapping[object, object], places: list[Location]) -> dict[str, object]:
    """A copy of the data in which the values at these places mean nothing to any rule."""
    marked = copy.deepcopy({str(key): value for key, value in data.items()})
    for place in places:
        holder: dict[Any, Any] = marked
        for depth, part in enumerate(place):
            inner = holder.get(part)
            if inner is None:
                break
            if depth == len(place) - 1 or not isinstance(inner, dict):
                holder[part] = _INVALID
                break
            holder = inner
    return marked
