import json

import pytest

HEAD = "source: {type: directory, input_dir: x}\noutput: {output_dir: out}\n"

TEXTS = (
    HEAD,
    "source: {type: huggingface, hf_dataset: a/b, hf_data_files: x/*.parquet}\n"
    "data_format: {image_key: a, caption_key: json.b}\n"
    "output: {output_dir: out, splits: {train: 2/3, val: 1/3}}\n"
    "image: {variable_size: true}\n",
    "source: {type: webdataset, input_path: tars/*.tar}\n"
    "data_format: {caption_keys: [json.a, txt]}\n"
    "output: {output_dir: out, shard_size: {512: 10, 1024: 5}, train_split: 0.7}\n"
    "image: {buckets: {tiers: [1024, 512], max_upscale: 4/3, min_aspect: .5}}\n"
    "schedule: 0 3 * * *\n",
)


@pytest.mark.parametrize("text", TEXTS)
def test_the_resolved_recipe_is_a_recipe_with_the_same_hash(load, text: str):
    loaded = load(text)
    again = load(json.dumps(loaded.resolved))
    assert again.resolved == loaded.resolved
    assert again.recipe_hash == loaded.recipe_hash
    assert again.recipe.output.shares == loaded.recipe.output.shares
    assert again.recipe.output.shard_size == loaded.recipe.output.shard_size
    assert again.recipe.image == loaded.recipe.image
    assert again.recipe.data_format.image_fields == loaded.recipe.data_format.image_fields


def test_numbers_stay_numbers_and_fractions_are_text(load):
    resolved = load(TEXTS[2]).resolved
    assert resolved["output"]["train_split"] == 0.7
    assert resolved["output"]["shard_size"] == {"512": 10, "1024": 5}
    assert resolved["image"]["buckets"] == {
        "tiers": [512, 1024],
        "min_aspect": "1/2",
        "max_aspect": "2",
        "max_upscale": "4/3",
        "patch": 16,
        "shapes": None,
    }


def test_keys_that_do_not_apply_are_left_out(load):
    plain, other = load(HEAD).resolved, load(TEXTS[1]).resolved
    assert set(plain["source"]) == {"type", "input_dir", "keep_downloads"}
    assert set(other["source"]) == set(
        (
            "type",
            "hf_dataset",
            "hf_name",
            "hf_split",
            "hf_revision",
            "hf_data_files",
            "keep_downloads",
        )
    )
    assert "train_split" not in other["output"]
    assert "image_keys" not in other["data_format"]
