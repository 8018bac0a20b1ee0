"""The YAML that `init` writes says what it means, whatever the names."""

import os
import re
from dataclasses import replace

import pytest

from diffprep_assets.recipe.load import load_recipe
from diffprep_assets.recipe.yaml_text import read_yaml
from diffprep_assets.source_look.recipe_text import RecipeDraft, recipe_text
from diffprep_resources.errors import SettingError

DRAFT = RecipeDraft(
    command="diffprep init x --from y",
    saw="3 pictures",
    source={"type": "directory", "input_dir": "y"},
    source_words="*.txt",
    data_format={},
    output_dir="data/x",
    shard_size=25,
    model={},
    media="pictures",
    encoded={"buckets": {"tiers": [512, 1024], "max_aspect": "3"}},
    encoded_words="many shapes",
)
CLIPS = replace(DRAFT, media="clips", encoded={"workload": "t2v", "num_frames": 49})


@pytest.mark.parametrize(
    "name",
    [
        *("plain/name.d", "a b", "it's: here", "# no", "1e5", "yes", "null", "12:30", "*.tar"),
        *("s3://bucket/x-*.tar", "\u00e9\u4e2d", '"quoted"', "- x", "{a,b}", "a #b", "~", "010"),
    ],
)
def test_any_name_comes_back_as_it_was(name: str):
    draft = replace(DRAFT, source={"type": "directory", "input_dir": name})
    document = read_yaml(recipe_text(draft), environment=os.environ)
    assert document.problems == []
    assert isinstance(document.data, dict)
    assert document.data["source"] == {"type": "directory", "input_dir": name}
    assert document.data["image"] == DRAFT.encoded


@pytest.mark.parametrize("name", ["${HOME}", "a\nb", "\udc80"])
def test_a_name_that_a_recipe_cannot_hold_is_refused(name: str):
    draft = replace(DRAFT, source={"type": "directory", "input_dir": name})
    with pytest.raises(SettingError, match="cannot stand in a recipe"):
        recipe_text(draft)


def test_every_commented_line_can_be_switched_on(tmp_path):
    text = recipe_text(DRAFT).replace('max_aspect: "3"', "max_aspect: 3")
    path = tmp_path / "x.yaml"
    path.write_text(re.sub(r"^(  )# (\w+:)", r"\1\2", text, flags=re.MULTILINE))
    recipe = load_recipe(path, base=tmp_path).recipe
    assert recipe.curate.dedup is not None
    assert recipe.curate.filters.min_side == 256
    assert recipe.output.formats == ("energon",)


def test_every_commented_line_can_be_switched_on_for_clips(tmp_path):
    path = tmp_path / "x.yaml"
    path.write_text(re.sub(r"^(  )# (\w+:)", r"\1\2", recipe_text(CLIPS), flags=re.MULTILINE))
    recipe = load_recipe(path, base=tmp_path).recipe
    assert recipe.video is not None
    assert (recipe.video.num_frames, recipe.output.formats) == (49, ("fastvideo",))
    assert (recipe.model.precision, recipe.captions.clean) == ("fp32", "diffusers")


def test_a_strange_command_stays_in_its_comment():
    text = recipe_text(replace(DRAFT, command="x\nmodel: {}", saw="a\nb"))
    assert text.splitlines()[0] == "# Written by `x model: {}`,"
