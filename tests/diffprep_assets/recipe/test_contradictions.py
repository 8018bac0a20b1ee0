import pytest

SOURCE = "source: {type: directory, input_dir: x}\n"
OUTPUT = "output: {output_dir: out}\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "source:\n  type: huggingface\n  hf_dataset: a/b\n  input_dir: x\n" + OUTPUT,
            "lines 2 and 4: source.input_dir belongs to source.type directory, but source.type is "
            "huggingface; remove one",
        ),
        (
            "source:\n  type: directory\n  input_dir: x\n  hf_split: train\n" + OUTPUT,
            "lines 2 and 4: source.hf_split belongs to source.type huggingface",
        ),
        ("source: {type: directory}\n" + OUTPUT, "line 1: source.input_dir is required with"),
        ("source: {type: webdataset}\n" + OUTPUT, "line 1: source.input_path is required with"),
        (
            "source: {type: huggingface, hf_dataset: ''}\n" + OUTPUT,
            "line 1: source.hf_dataset is required with source.type huggingface",
        ),
        (
            SOURCE + OUTPUT + "data_format:\n  image_key: a\n  image_keys: [b]\n",
            "lines 4 and 5: data_format.image_key contradicts data_format.image_keys",
        ),
        (
            SOURCE + OUTPUT + "data_format:\n  caption_keys: [b]\n  caption_key: a\n",
            "lines 4 and 5: data_format.caption_key contradicts data_format.caption_keys",
        ),
        (
            SOURCE + "output:\n  output_dir: o\n  train_split: 1.0\n  splits: {train: 1}\n",
            "lines 4 and 5: output.train_split contradicts output.splits",
        ),
        (
            SOURCE + OUTPUT + "image: {variable_size: true, buckets: {}}\n",
            "line 3: image.variable_size contradicts image.buckets",
        ),
        (
            SOURCE + OUTPUT + "image: {variable_size: true, center_crop: true}\n",
            "line 3: image.center_crop contradicts image.variable_size: variable_size crops",
        ),
        (
            SOURCE + OUTPUT + "image: {buckets: {}, center_crop: true}\n",
            "line 3: image.center_crop contradicts image.buckets: buckets always crop",
        ),
        (
            SOURCE + "output: {output_dir: o, shard_size: {512: 5}}\n",
            "line 2: output.shard_size for each tier needs image.buckets",
        ),
        (
            SOURCE
            + "output: {output_dir: o, shard_size: {512: 5, 1025: 5}}\nimage: {buckets: {}}\n",
            "names tier 1025, but image.buckets.tiers is 512, 1024; did you mean 1024?",
        ),
        (
            SOURCE + "output: {output_dir: o, shard_size: {512: 5}}\nimage: {buckets: {}}\n",
            "line 2: output.shard_size has no size for tier 1024 of image.buckets.tiers",
        ),
        (
            SOURCE + OUTPUT + "image:\n  buckets:\n    shapes: [[512, 512]]\n    patch: 8\n",
            "lines 5 and 6: image.buckets.shapes contradicts image.buckets.patch",
        ),
        (
            SOURCE
            + "output: {output_dir: o, formats: [energon, mds]}\n"
            + "image:\n  buckets: {shapes: [[512, 512], [640, 640], [1024, 1024]]}\n",
            "lines 2 and 4: image.buckets.shapes holds 512x512 and 640x640, both of aspect 1.000 "
            "in tier 512",
        ),
        (
            SOURCE + OUTPUT + "image: {buckets: {shapes: [[1536, 640]]}}\n",
            "1536x640 has 12/5: set max_aspect to that, or leave the shape out",
        ),
        (
            SOURCE + OUTPUT + "image: {buckets: {shapes: [[1024, 1024]], tiers: [512, 1024]}}\n",
            "none lies in 512: leave that tier out",
        ),
        (
            SOURCE + OUTPUT + "image: {buckets: {shapes: [1024, 512]}}\n",
            "image.buckets.shapes must be a list of [width, height], in pixels, got [1024, 512]",
        ),
        (
            SOURCE + OUTPUT + "curate: {filters: {caption_length: [1]}}\n",
            "curate.filters.caption_length[1] is required: [least, most] characters",
        ),
        (
            SOURCE + OUTPUT + "image: {buckets: {tiers: [512, 1024], patch: 20}}\n",
            "got {tiers: [512, 1024], patch: 20}; for tier 512 the nearest is 1280",
        ),
    ],
)
def test_keys_that_cannot_stand_together_are_refused(refuse, text: str, message: str):
    assert message in refuse(text)


@pytest.mark.parametrize(
    "text",
    [
        "image: {variable_size: false, buckets: {}}\n",
        "image: {variable_size: true, center_crop: false}\n",
        "image: {variable_size: true, buckets: null}\n",
        "image: {buckets: {}, center_crop: false}\n",
        "data_format: {image_key: null, image_keys: [b]}\n",
        "image: {buckets: {shapes: [[1024, 1024], [832, 1216], [512, 512], [640, 640]]}}\n",
        "image: {buckets: {shapes: [[1536, 640]], tiers: [1024], max_aspect: 12/5}}\n",
        "image: {buckets: {tiers: [512, 1024], patch: 32}}\n",
    ],
)
def test_a_key_at_its_default_contradicts_nothing(load, text: str):
    assert load(SOURCE + OUTPUT + text)


def test_null_keys_of_another_source_contradict_nothing(load):
    source = "source: {type: directory, input_dir: x, hf_dataset: null, input_path: ''}\n"
    assert load(source + OUTPUT)


def test_contradictions_are_found_beside_other_mistakes(refuse):
    message = refuse(
        "source: {type: directory, input_dir: 5}\n"
        "output: {output_dir: o, train_split: x, splits: {train: 1}}\n"
        "image: {variable_size: true, buckets: {tiers: [1]}, max_size: x}\n"
    )
    assert len(message.splitlines()) == 6
    assert "train_split contradicts" in message
    assert "variable_size contradicts" in message
    assert "input_dir is required" not in message
