import pytest

from diffprep_assets.recipe.formats import image_quality, stages_of

HEAD = "source: {type: directory, input_dir: x}\n"
BEFORE = ("source_index", "download", "bucket")


def stages(load, text: str) -> tuple[str, ...]:
    return stages_of(load(HEAD + text).recipe)


def test_a_plain_recipe_has_the_pre_encoded_stages_and_no_other(load):
    assert stages(load, "output: {output_dir: out}\n") == (
        *(*BEFORE, "curate", "shard_plan", "encode_latents", "encode_text", "shard"),
        *("energon_prepare", "validate"),
    )


def test_raw_alone_has_no_encode_stage(load):
    assert stages(load, "output: {output_dir: out, formats: raw}\n") == (
        *(*BEFORE, "curate", "shard_plan", "shard_raw", "raw_prepare", "validate"),
    )


def test_mds_encodes_only_what_its_columns_hold(load):
    text = "output: {output_dir: out, formats: [mds]}\nmodel: {vae_latent_mode: resample}\n"
    assert "encode_latents" not in stages(load, text)
    latents = stages(load, text + "mds: {latents: true}\n")
    assert "encode_latents" in latents
    assert "encode_text" not in latents
    assert "encode_text" in stages(load, text + "mds: {text_latents: true}\n")


def test_curation_brings_what_it_needs_to_know(load):
    output = "output: {output_dir: out}\n"
    hashed = stages(load, output + "curate: {dedup: {}}\n")
    assert hashed[2:6] == ("bucket", "picture_hash", "curate", "shard_plan")
    assert "picture_hash" not in stages(load, output + "curate: {dedup: {method: digest}}\n")
    filtered = stages(load, output + 'curate: {filters: {where: "score > 1"}}\n')
    assert filtered[2:5] == ("bucket", "source_columns", "curate")
    grouped = stages(load, output + "curate: {group_key: album}\n")
    assert "source_columns" in grouped
    unused = stages(load, output + "mds: {caption_columns: {long: 1}}\n")
    assert "source_columns" not in unused


def test_every_format_is_written_and_published_by_a_stage_of_its_own(load):
    found = stages(load, "output: {output_dir: out, formats: [mds, energon, raw]}\n")
    assert found[-7:] == (
        *("shard", "shard_raw", "shard_mds", "energon_prepare", "raw_prepare", "mds_prepare"),
        "validate",
    )


@pytest.mark.parametrize(
    ("output", "raw", "mds"), [("", 95, 92), (", image_quality: 80", 80, 80)], ids=["null", "given"]
)
def test_the_quality_is_the_formats_own_unless_given(load, output: str, raw: int, mds: int):
    recipe = load(f"{HEAD}output: {{output_dir: out, formats: [raw, mds]{output}}}\n").recipe
    assert (image_quality(recipe, "raw"), image_quality(recipe, "mds")) == (raw, mds)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("output: {output_dir: o, formats: [raw, raw]}\n", "must not name a format twice"),
        ("output: {output_dir: o, formats: [zip]}\n", "output.formats"),
        (
            "output: {output_dir: o, formats: [mds]}\nmds: {latents: true}\n",
            "mds.latents needs model.vae_latent_mode: resample",
        ),
        (
            "output: {output_dir: o, formats: [mds]}\nmds: {caption_columns: {long: 0}}\n",
            "must give each field a weight of more than 0, got 0",
        ),
        (
            "output: {output_dir: o}\ncurate: {filters: {caption_length: [9, 3]}}\n",
            "must have the smaller number first, got [9, 3]",
        ),
        ("output: {output_dir: o}\ncurate: {filters: {banned: ['/(/']}}\n", "pattern that is none"),
        ("output: {output_dir: o}\ncurate: {filters: {max_aspect: 1/2}}\n", "must be at least 1"),
        ("output: {output_dir: o}\ncurate: {dedup: {max_distance: 5}}\n", "must be at most 4"),
    ],
)
def test_settings_that_cannot_be_are_refused(refuse, text: str, message: str):
    assert message in refuse(HEAD + text)


@pytest.mark.parametrize(
    ("text", "note"),
    [
        ("output: {output_dir: o, image_format: png}\n", "no format stores pictures"),
        (
            "output: {output_dir: o, formats: raw, image_format: png, image_quality: 9}\n",
            "png is without loss",
        ),
        ("output: {output_dir: o}\nmds: {text_latents: true}\n", "does not list mds"),
        ("output: {output_dir: o, layout: per_bucket}\n", "there is one bucket"),
        (
            "output: {output_dir: o}\ncurate: {dedup: {method: digest, max_distance: 2}}\n",
            "curate.dedup.max_distance has no effect",
        ),
    ],
)
def test_settings_without_effect_are_noted(load, text: str, note: str):
    (found,) = load(HEAD + text).notes
    assert note in found
