"""Sizes that fit the pictures seen."""

import pytest

from diffprep_assets.source_look.settings import image_choice, shard_size, t5_max_length


@pytest.mark.parametrize(
    ("sizes", "section"),
    [
        ([(1024, 1024)] * 9, {"image_size": 1024, "center_crop": True}),
        ([(800, 800), (900, 905)], {"image_size": 768, "center_crop": True}),
        ([(100, 100)] * 4, {"image_size": 96, "center_crop": True}),
        ([], {"image_size": 1024, "center_crop": True}),
        ([(3000, 2000), (2000, 3000)], {"buckets": {"tiers": [1024]}}),
        ([(3000, 2000), (700, 500)], {"buckets": {"tiers": [512, 1024]}}),
        ([(3000, 2000), (3000, 2000), (300, 200)], {"buckets": {"tiers": [256, 512, 1024]}}),
        ([(150, 100), (96, 130)], {"variable_size": True, "max_size": 144}),
        (
            [(3000, 1100), (2000, 3000)],
            {"buckets": {"tiers": [1024], "min_aspect": "1/3", "max_aspect": "3"}},
        ),
    ],
)
def test_the_sizes_decide_the_mode(sizes: list[tuple[int, int]], section: dict[str, object]):
    choice = image_choice(sizes)
    assert choice.section == section
    assert choice.image.model_dump()["variable_size"] == section.get("variable_size", False)


def test_pictures_that_do_not_fit_are_counted():
    sizes = [(1500, 1000)] * 60 + [(100, 60), (6000, 1000)]
    assert image_choice(sizes).left_out(sizes) == {"too_small": 1, "aspect_out_of_range": 1}


def test_a_dataset_gets_several_shards():
    assert [shard_size(samples) for samples in (5, 240, 1000, 8000, 10**6)] == [
        *(25, 25, 100, 1000, 1000),
    ]


def test_schnell_sees_fewer_tokens():
    assert t5_max_length("black-forest-labs/FLUX.1-schnell") == 256
    assert t5_max_length("black-forest-labs/FLUX.1-dev") is None
