"""Which fields of the source a recipe asks for."""

from diffprep_assets.curate.where import check_where
from diffprep_assets.recipe.schema import Recipe


def wanted_columns(recipe: Recipe) -> dict[str, list[str]]:
    """Every field that is read besides picture and caption, and the recipe's keys that name it.
    Imports duckdb where there is a condition, whose text says which."""
    curate = recipe.curate
    found: dict[str, list[str]] = {}
    if curate.filters.where is not None:
        for name in check_where(curate.filters.where):
            found.setdefault(name, []).append("curate.filters.where")
    if curate.group_key is not None:
        found.setdefault(curate.group_key, []).append("curate.group_key")
    if "mds" in recipe.output.formats:
        for name in recipe.mds.caption_columns or {}:
            found.setdefault(name, []).append("mds.caption_columns")
    return dict(sorted(found.items()))
