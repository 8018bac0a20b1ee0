import pickle
from collections.abc import Iterator
from fractions import Fraction
from typing import get_args

import pytest
from pydantic import BaseModel, ValidationError

from diffprep_assets.recipe.messages import known_keys
from diffprep_assets.recipe.schema import Buckets, Image, Output, Recipe, Source

HEAD = "source: {type: directory, input_dir: x}\n"
BODY = "output: {output_dir: out}\n"


def _fields(model: type[BaseModel]) -> Iterator[tuple[str, str | None]]:
    for name, field in model.model_fields.items():
        yield name, field.description
        for option in (field.annotation, *get_args(field.annotation)):
            if isinstance(option, type) and issubclass(option, BaseModel):
                yield from _fields(option)


def test_every_field_says_what_it_is():
    fields = list(_fields(Recipe))
    assert len(fields) > 50
    assert [name for name, description in fields if not description] == []


def test_the_keys_are_those_of_the_design():
    sections: dict[str, set[str]] = {}
    for location in known_keys(Recipe):
        if len(location) == 2:
            sections.setdefault(str(location[0]), set()).add(str(location[1]))
    assert sections == {
        "source": {
            "type",
            "input_dir",
            "hf_dataset",
            "hf_name",
            "hf_split",
            "hf_revision",
            "hf_data_files",
            "input_path",
            "keep_downloads",
        },
        "data_format": {"image_key", "caption_key", "image_keys", "caption_keys"},
        "output": {
            "output_dir",
            "formats",
            "layout",
            "image_format",
            "image_quality",
            "resplit",
            "shard_size",
            "max_samples",
            "shuffle_seed",
            "train_split",
            "splits",
            "split_seed",
            "license",
            "finalize",
            "intermediates",
            "max_reject_rate",
            "compress",
        },
        "model": {
            "model_path",
            "vae_path",
            "t5_path",
            "clip_path",
            "precision",
            "t5_max_length",
            "vae_latent_mode",
            "seed",
        },
        "image": {
            "image_size",
            "center_crop",
            "variable_size",
            "max_size",
            "buckets",
            "background",
            "min_side",
            "max_pixels",
        },
        "captions": {"choose", "allow_empty", "clean", "lines"},
        "video": {
            *("workload", "max_height", "max_width", "num_frames", "train_fps", "speed_factor"),
            *("video_length_tolerance_range", "do_temporal_sample", "seed", "samples_per_file"),
            *("loader", "drop_short_ratio", "training_cfg_rate", "vae_tiling", "allow_hdr"),
            *("buckets", "clips_jsonl"),
        },
        "curate": {"dedup", "filters", "group_key", "skip_lists"},
        "mds": {"latents", "text_latents", "caption_columns"},
        "auth": {"hf_token_file"},
    }


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "image: {image_size: 0}",
            "image.image_size must be a multiple of 16 from 16 to 16384, got 0; the nearest is 16",
        ),
        ("image: {image_size: 500}", "got 500; the nearest is 496"),
        ("image: {max_size: 1000}", "image.max_size must be a multiple of 16"),
        ("image: {image_size: true}", "image.image_size must be a whole number, got true"),
        ("image: {image_size: 512.0}", "image.image_size must be a whole number, got 512.0"),
        ("image: {image_size: '512'}", 'got "512" as text; remove the quotes'),
        ("image: {center_crop: 'False'}", "image.center_crop must be true or false"),
        ("image: {center_crop: 1}", "image.center_crop must be true or false, got 1"),
        ("image: {background: white}", "colour under transparent pictures, as '#rrggbb'"),
        ("image: {background: #000000\n}", "image.background needs quotes, '#000000'"),
        ("image: {buckets: {tiers: [640]}}", "for 640 the nearest is 768"),
        ("image: {buckets: {tiers: []}}", "must list at least one tier"),
        ("image: {buckets: {tiers: [512, 512]}}", "must not name a tier twice"),
        ("image: {buckets: {tiers: 512}}", "image.buckets.tiers must be a list, got 512"),
        ("image: {buckets: {tiers: ['512']}}", "image.buckets.tiers[0] must be a whole number"),
        ("image: {buckets: {max_upscale: x}}", "must be a number or a fraction like 4/3"),
        ("image: {buckets: {max_upscale: 0}}", "image.buckets.max_upscale must be more than 0"),
        ("image: {buckets: {min_aspect: 1.5}}", "must have min_aspect of at most 1"),
        ("image: {buckets: {tier: [512]}}", "did you mean image.buckets.tiers?"),
        ("image: {buckets: true}", "image.buckets must be a section with the keys tiers"),
        ("image: {min_side: 0}", "image.min_side must be at least 1, got 0"),
        ("model: {precision: bf61}", 'must be bf16, fp16 or fp32, got "bf61"; did you mean bf16?'),
        ("model: {t5_max_length: 0}", "model.t5_max_length must be at least 1"),
        ("model: {seed: -1}", "model.seed must be at least 0, got -1"),
        ("model: {seed: 1e-5}", "model.seed must be a whole number, got 1e-5"),
        ("model: {model_path: ''}", "model.model_path must not be empty"),
        ("model: {model_path: 5}", "model.model_path must be text, got 5; put it in quotes"),
        ("model: {batch_size: 0}", "model.batch_size must be at least 1, got 0"),
        ("model: {device: gpu}", "model.device must be cpu, cuda, a numbered one"),
        ("captions: {choose: last}", "captions.choose must be first, all or random"),
        ("captions: {lines: every}", "captions.lines must be whole or each"),
        ("captions: 5", "captions must be a section with the keys choose, allow_empty, clean, "),
        ("data_format: {image_key: json..a}", "must be a field name, or a dotted path"),
        ("data_format: {caption_keys: []}", "data_format.caption_keys must not be empty"),
        ("data_format: {caption_keys: [a, 5]}", "data_format.caption_keys[1] must be text, got 5"),
        ("schedule: [1]", "schedule must be text"),
        ("image_size: 512", "image_size is not a known key; did you mean image.image_size?"),
        ("image: {batch_size: 5}", "did you mean model.batch_size?"),
        ("512: 5", "[512] is not a known key"),
    ],
)
def test_a_wrong_value_is_refused_with_what_is_allowed(refuse, line: str, message: str):
    found = refuse(HEAD + BODY + line + "\n")
    assert found.startswith("line 3: ")
    assert message in found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "{output_dir: o, shard_size: 0}",
            "output.shard_size must be a whole number of at least 1",
        ),
        ("{output_dir: o, shard_size: true}", "output.shard_size must be a whole number"),
        ("{output_dir: o, shard_size: {}}", "or one for each tier like {512: 2000}"),
        ("{output_dir: o, shard_size: {512: '5'}}", 'got {512: "5"}'),
        ("{output_dir: o, shard_size: {x: 5}}", "got {x: 5}"),
        ("{output_dir: o, max_samples: 0}", "output.max_samples must be at least 1"),
        ("{output_dir: o, shuffle_seed: true}", "output.shuffle_seed must be a whole number"),
        ("{output_dir: o, train_split: 0}", "output.train_split must be more than 0"),
        ("{output_dir: o, train_split: 1.5}", "output.train_split must be from 0 to 1, got 1.5"),
        ("{output_dir: o, train_split: .nan}", "must be a number or a fraction"),
        ("{output_dir: o, train_split: -0.1}", "output.train_split must be from 0 to 1"),
        ("{output_dir: o, splits: {train: 0.5}}", "must sum to 1"),
        ("{output_dir: o, splits: {val: 1}}", "output.splits.train is required"),
        ("{output_dir: o, splits: {train: 0, val: 1}}", "train is never empty"),
        ("{output_dir: o, splits: {train: 1, dev: 0}}", "output.splits.dev is not a known key"),
        ("{output_dir: o, compress: true}", "a compressed tar cannot be indexed"),
        ("{output_dir: o, finalize: 'no'}", 'output.finalize must be true or false, got "no"'),
        ("{output_dir: 's3://b/x'}", "output.output_dir must be a local or mounted folder"),
        ("{}", "output.output_dir is required: the folder that the trainer reads"),
        ("{shard_size: 5}", "output.output_dir is required"),
    ],
)
def test_a_wrong_output_is_refused(refuse, text: str, message: str):
    found = refuse(f"{HEAD}output: {text}\n")
    assert found.startswith("line 2: ")
    assert message in found


@pytest.mark.parametrize(
    ("written", "shares"),
    [
        ("{}", (1, 0, 0)),
        ("{train_split: 0.8}", (Fraction(4, 5), Fraction(1, 10), Fraction(1, 10))),
        ("{train_split: 1/3}", (Fraction(1, 3), Fraction(1, 3), Fraction(1, 3))),
        (
            "{splits: {train: 0.7, val: 0.2, test: 0.1}}",
            (Fraction(7, 10), Fraction(1, 5), Fraction(1, 10)),
        ),
        ("{splits: {train: 1/3, test: 2/3}}", (Fraction(1, 3), 0, Fraction(2, 3))),
    ],
)
def test_shares_are_exact_and_sum_to_one(load, written: str, shares: tuple[Fraction, ...]):
    output = f"output: {written[:-1]}{', ' if len(written) > 2 else ''}output_dir: out}}\n"
    found = load(HEAD + output).recipe.output.shares
    assert found == shares
    assert sum(found) == 1


def test_shard_sizes_by_tier_and_as_one_number():
    assert Output(output_dir="o", shard_size={512: 20, 1024: 5}).shard_size_of(1024) == 5
    assert Output(output_dir="o", shard_size=7).shard_size_of(512) == 7


def test_the_three_ways_to_size_a_picture():
    assert Image().mode == "image_size"
    assert Image(variable_size=True).mode == "variable_size"
    assert Image(buckets=Buckets()).mode == "buckets"


def test_bucket_fractions_are_exact_and_tiers_sorted(load):
    text = (
        "image: {buckets: {tiers: [1024, 512], max_upscale: 4/3, min_aspect: 0.5, max_aspect: 2}}"
    )
    buckets = load(HEAD + BODY + text).recipe.image.buckets
    assert buckets.tiers == (512, 1024)
    assert (buckets.min_aspect, buckets.max_aspect) == (Fraction(1, 2), Fraction(2))
    assert buckets.max_upscale == Fraction(4, 3)


def test_a_recipe_is_frozen_and_travels_to_another_process(load):
    recipe = load(HEAD + BODY + "image: {buckets: {tiers: [512]}}\n").recipe
    assert pickle.loads(pickle.dumps(recipe)) == recipe
    with pytest.raises(ValidationError, match="frozen"):
        recipe.image.image_size = 5


def test_a_recipe_made_in_python_is_checked_for_contradictions_too():
    source = Source(type="directory", input_dir="x")
    image = Image(variable_size=True, buckets=Buckets())
    with pytest.raises(ValidationError, match=r"contradicts image\.buckets"):
        Recipe(source=source, output=Output(output_dir="o"), image=image)


def test_one_data_file_pattern_or_several(load):
    source = "source: {type: huggingface, hf_dataset: a/b, hf_data_files: "
    assert load(f"{source}x/*.tar}}\n{BODY}").recipe.source.hf_data_files == ("x/*.tar",)
    assert load(f"{source}[a, b]}}\n{BODY}").recipe.source.hf_data_files == ("a", "b")
