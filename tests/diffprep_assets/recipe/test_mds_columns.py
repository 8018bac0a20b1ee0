from diffprep_assets.recipe.mds_columns import unfit_names


def test_captions_that_readers_would_mix_up_are_named():
    names = ["long", "long_en", "caption_short", "image", "latent_x", "caption2", "attention_mask_"]
    unfit = dict(unfit_names(names))
    assert unfit.keys() == {"long_en", "caption_short", "image", "latent_x", "attention_mask_"}
    assert "'long'" in unfit["long_en"]
