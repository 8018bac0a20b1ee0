import re

import pytest

from diffprep_assets.recipe.names import asset_group_name, check_name, colliding_names


@pytest.mark.parametrize("name", ["demo", "my-ds", "my.ds_2", "7", "A"])
def test_a_name_of_letters_digits_and_marks_is_fine(name: str):
    assert check_name(name) == name
    assert re.fullmatch(r"[A-Za-z0-9_]+", asset_group_name(name))


@pytest.mark.parametrize("name", ["", ".x", "-x", "_x", "a b", "a/b", "caf\u00e9", "a\n"])
def test_any_other_name_is_refused(name: str):
    with pytest.raises(ValueError, match="must start with a letter or digit"):
        check_name(name)


def test_names_that_dagster_cannot_tell_apart_are_found():
    assert colliding_names(["my.ds", "demo", "my-ds", "my_ds", "a"]) == [
        ("my-ds", "my.ds", "my_ds")
    ]
    assert colliding_names(["demo", "demo"]) == [("demo", "demo")]
    assert colliding_names(["a-b", "ab", "A-b"]) == []
