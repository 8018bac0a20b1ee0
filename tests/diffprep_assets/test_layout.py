from pathlib import Path

from diffprep_assets.layout import Layout


def test_the_first_format_lies_in_the_output_folder_and_others_within():
    layout = Layout(Path("root"), "set", Path("out"), "raw")

    assert layout.output_dir == Path("out")
    assert layout.of("raw").output_dir == Path("out")
    assert layout.of("energon").output_dir == Path("out/energon")
    assert layout.of("energon").of("mds").output_dir == Path("out/mds")
    assert layout.of("mds").of("raw").output_dir == Path("out")


def test_no_two_formats_share_a_file_of_the_work_folder():
    layout = Layout(Path("root"), "set", Path("out"))
    formats = [layout.of("energon"), layout.of("raw"), layout.of("mds")]

    for name in ("shard_file", "shard_samples", "shard_record", "shard_bad"):
        assert len({getattr(one, name)("g0-64-64x64-000000") for one in formats}) == 3
    assert len({one.prepared for one in formats}) == 3
    assert len({one.published_state for one in formats}) == 3
    # What comes before the shards is there once.
    assert len({one.shard_plan for one in formats}) == 1
    assert len({one.latents("x") for one in formats}) == 1
