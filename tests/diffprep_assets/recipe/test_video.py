import pytest

from diffprep_assets.recipe.formats import stages_of

HEAD = "source: {type: directory, input_dir: clips}\noutput: {output_dir: out}\n"


def test_an_empty_section_video_brings_the_defaults_of_clips(load):
    loaded = load(HEAD + "video: {}\n")
    recipe = loaded.recipe
    assert recipe.video is not None
    assert (recipe.video.sizes, recipe.video.frame_counts) == (((832, 480),), (77,))
    assert recipe.output.formats == ("fastvideo",)
    assert recipe.output.shard_size == 64
    assert recipe.model.model_path == "Wan-AI/Wan2.1-T2V-1.3B-Diffusers"
    assert recipe.model.precision == "fp32"
    assert recipe.captions.clean == "diffusers"
    assert loaded.execution.batch_size == 1
    assert "image" not in loaded.resolved
    assert loaded.notes == ()


def test_what_is_written_goes_before_those_defaults(load):
    text = (
        "source: {type: directory, input_dir: clips}\n"
        "output: {output_dir: out, shard_size: 5, formats: [energon_video, fastvideo]}\n"
        "model: {model_path: here, batch_size: 2}\ncaptions: {clean: none}\n"
        "video: {workload: i2v, buckets: {sizes: [[64, 32], [32, 64]], frames: [33, 17]}}\n"
    )
    loaded = load(text)
    recipe = loaded.recipe
    assert recipe.video is not None
    assert recipe.video.frame_counts == (17, 33)
    assert recipe.output.formats == ("energon_video", "fastvideo")
    assert (recipe.output.shard_size, recipe.model.model_path) == (5, "here")
    assert recipe.captions.clean == "none"
    assert loaded.execution.batch_size == 2


def test_the_stages_of_clips(load):
    before = ("source_index", "download", "bucket", "curate", "shard_plan")
    assert stages_of(load(HEAD + "video: {}\n").recipe) == (
        *(*before, "encode_latents", "encode_text", "shard", "fastvideo_prepare", "validate"),
    )
    of_image = stages_of(load(HEAD + "video: {workload: i2v}\n").recipe)
    assert of_image[5:9] == (
        *("encode_latents", "encode_text", "encode_first_frame", "encode_clip"),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("video: {num_frames: 80}\n", "for 80 the nearest is 81"),
        ("video: {max_width: 830}\n", "the nearest is 832"),
        ("video: {buckets: {frames: [17, 18]}}\n", "for 18"),
        ("video: {drop_short_ratio: 0.5}\n", "video.drop_short_ratio must be 1"),
        ("video: {training_cfg_rate: 0.1}\n", "video.training_cfg_rate must be 0"),
        ("video: {num_frames: 17, buckets: {frames: [17]}}\n", "contradicts"),
        ("video: {}\nimage: {image_size: 64}\n", "image is for pictures"),
        ("video: {}\nmodel: {precision: bf16}\n", "model.precision must be fp32"),
        ("video: {}\ncurate: {dedup: {}}\n", "curate.dedup.method must be digest"),
    ],
)
def test_what_clips_cannot_be_is_refused(refuse, text: str, message: str):
    assert message in refuse(HEAD + text)


def test_formats_of_the_other_medium_are_refused(refuse):
    start = "source: {type: directory, input_dir: x}\n"
    said = refuse(start + "output: {output_dir: o, formats: [raw]}\nvideo: {}\n")
    assert "lists raw, which is for pictures" in said
    said = refuse(start + "output: {output_dir: o, formats: [fastvideo]}\n")
    assert "lists fastvideo, which is for clips: add a section video" in said


def test_another_loader_is_taken_with_a_note(load):
    (note,) = load(HEAD + "video: {loader: torchcodec}\n").notes
    assert note == "video.loader torchcodec: PyAV decodes, which gives the same frames"
