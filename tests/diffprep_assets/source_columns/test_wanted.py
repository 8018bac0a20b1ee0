"""Which fields a recipe asks for."""

from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.source_columns.wanted import wanted_columns


def recipe(**sections: object) -> Recipe:
    source = {"type": "directory", "input_dir": "in"}
    formats = {"output_dir": "out", "formats": ("mds",)}
    return Recipe.model_validate({"source": source, "output": formats, **sections}, strict=False)


def test_every_key_that_names_a_field_is_told_by_field() -> None:
    curate = {"filters": {"where": "score > 1 and artist = 'x'"}, "group_key": "artist"}
    found = wanted_columns(recipe(curate=curate, mds={"caption_columns": {"alt": 0.5}}))
    assert found == {
        "alt": ["mds.caption_columns"],
        "artist": ["curate.filters.where", "curate.group_key"],
        "score": ["curate.filters.where"],
    }
    assert wanted_columns(recipe()) == {}
