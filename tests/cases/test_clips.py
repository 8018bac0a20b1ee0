"""Clips of every awkward kind: each line of the known cases, as probed and as decoded."""

import io
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

from diffprep_resources.clips.choose import ClipSampling
from diffprep_resources.clips.pixels import read_pixels
from diffprep_resources.clips.probe import ClipFacts, ClipInfo, clip_facts, probe_clip
from diffprep_resources.clips.stated import stated_note
from diffprep_resources.errors import SampleReject
from tests.cases.clip_files import (
    FRAGMENTED,
    HTML,
    INDEX_FIRST,
    OPEN_GOP,
    ClipKind,
    clip,
    corners,
    cut,
    from_second_key_frame,
    number_in,
    of_unknown_codec,
    overwritten,
    sound_only,
    sound_with_cover,
    starting_late,
    without_frames,
)

NTSC = Fraction(24_000, 1001)
SHORT = ClipSampling(frame_counts=(5,), train_fps=Fraction(24), length_tolerance=Fraction(20))
GUIDE = ClipSampling()
NOISY = ClipKind(frames=48, noisy=True, container=INDEX_FIRST, options={"crf": "10"})


def facts_of(data: bytes) -> ClipFacts:
    return clip_facts(io.BytesIO(data))


def probed(data: bytes, sampling: ClipSampling = SHORT) -> ClipInfo:
    return probe_clip(io.BytesIO(data), sampling=sampling, source_key="a.mp4")


def pixels_of(
    data: bytes, sampling: ClipSampling = SHORT, *, width: int = 96, height: int = 64
) -> np.ndarray:
    """What `encode` sees of the frames that `bucket` planned."""
    wanted = probed(data, sampling).wanted_pts
    return read_pixels(io.BytesIO(data), wanted_pts=wanted, width=width, height=height)


def numbers_of(data: bytes, sampling: ClipSampling = SHORT) -> list[int]:
    return [number_in(frame) for frame in pixels_of(data, sampling)]


def reject_of(data: bytes, sampling: ClipSampling = SHORT) -> SampleReject:
    with pytest.raises(SampleReject) as caught:
        pixels_of(data, sampling)
    return caught.value


def decoded_times(data: bytes) -> list[int | None]:
    """The times of all frames, decoded in full with nothing of ours."""
    with av.open(io.BytesIO(data), "r") as container:
        return [frame.pts for frame in container.decode(video=0)]


# -- orientation, shape ------------------------------------------------------------------------

TURNED = {
    "rotation 90": ClipKind(rotation=90),
    "rotation 180": ClipKind(rotation=180),
    "rotation 270": ClipKind(rotation=270),
    "horizontal flip": ClipKind(hflip=True),
    "rotation 90 and flip": ClipKind(rotation=90, hflip=True),
    "ROTATE tag of mkv": ClipKind(format="matroska", rotate_tag="90"),
    "ROTATE tag 270": ClipKind(format="matroska", rotate_tag="270"),
}
# What the corners are, and whether width and height are exchanged. A display matrix turns
# counterclockwise and then mirrors, the tag turns clockwise.
UPRIGHT = {
    "rotation 90": ("gwbr", True),
    "rotation 180": ("wbrg", False),
    "rotation 270": ("brgw", True),
    "horizontal flip": ("grbw", False),
    "rotation 90 and flip": ("wgrb", True),
    "ROTATE tag of mkv": ("brgw", True),
    "ROTATE tag 270": ("gwbr", True),
}


@pytest.mark.parametrize("name", TURNED)
def test_a_turned_clip_is_upright_in_probe_and_pixels(name: str) -> None:
    data = clip(TURNED[name])
    shown, exchanged = UPRIGHT[name]
    shape = facts_of(data).shape
    assert (shape.width, shape.height) == ((96, 128) if exchanged else (128, 96))
    pixels = pixels_of(data, width=shape.width, height=shape.height)
    assert {corners(frame) for frame in pixels} == {shown}


def test_pixels_that_are_not_square_are_cropped_as_shown() -> None:
    data = clip(width=72, height=96, sar=Fraction(4, 3))
    shape = facts_of(data).shape
    assert (shape.shown_size, shape.sar) == ((96, 96), Fraction(4, 3))
    assert {corners(frame) for frame in pixels_of(data, width=64, height=64)} == {"rgwb"}


def test_a_quarter_turn_inverts_the_shape_of_pixels() -> None:
    data = clip(width=72, height=96, sar=Fraction(4, 3), rotation=270)
    shape = facts_of(data).shape
    assert (shape.width, shape.height, shape.sar) == (96, 72, Fraction(3, 4))
    assert shape.shown_size == (96, 96)
    assert {corners(frame) for frame in pixels_of(data, width=64, height=64)} == {"brgw"}


@pytest.mark.parametrize(
    ("width", "height", "pix_fmt"), [(130, 90, "yuv420p"), (129, 97, "yuv444p")]
)
def test_the_shown_size_counts_and_no_padding_is_seen(
    width: int, height: int, pix_fmt: str
) -> None:
    data = clip(width=width, height=height, pix_fmt=pix_fmt)
    shape = facts_of(data).shape
    assert (shape.width, shape.height) == (width, height)
    frame = pixels_of(data, width=width, height=height)[0]
    # The bottom right corner is white to its last pixel; padding repeats it or is black.
    assert corners(frame) == "rgwb"
    assert frame[-1, -1].min() > 200


# -- times -------------------------------------------------------------------------------------


def test_a_variable_rate_is_taken_by_presentation_time() -> None:
    """30 frames at 60 a second, then 10 at 20: a second of both, at 20 a second."""
    pts = (*range(0, 45_000, 1500), *range(45_000, 90_000, 4500))
    data = clip(frames=40, pts=pts, time_base=Fraction(1, 90_000))
    sampling = ClipSampling(frame_counts=(17,), train_fps=Fraction(20))
    info = probed(data, sampling)
    assert info.facts.times.rate is None
    assert "40 frames at 40 fps (variable) -> 20 at 20 fps" in info.how
    assert numbers_of(data, sampling) == [*range(0, 30, 3), *range(30, 37)]


@pytest.mark.parametrize("format", ["mpegts", "matroska"])
def test_a_clip_that_begins_late_is_taken_from_its_first_frame(format: str) -> None:
    pts = tuple(range(48, 72))
    data = clip(frames=24, pts=pts, time_base=Fraction(1, 24), format=format)
    times = facts_of(data).times
    assert float(times.pts[0] * times.time_base) > 1.9
    assert times.rate == 24
    assert numbers_of(data) == [0, 1, 2, 3, 4]


def test_times_in_milliseconds_keep_to_their_rate() -> None:
    data = clip(frames=50, fps=NTSC, format="matroska")
    times = facts_of(data).times
    assert times.time_base == Fraction(1, 1000)
    assert times.rate is not None
    sampling = ClipSampling(frame_counts=(33,))
    wanted = [int(k * NTSC / 16) for k in range(33)]
    assert numbers_of(data, sampling) == wanted


SHOWN = {
    "edit list": starting_late(clip(frames=48), hidden=10),
    "open group of pictures": from_second_key_frame(
        clip(frames=48, options=OPEN_GOP, format="mpegts")
    ),
    "fragmented": clip(container=FRAGMENTED),
    "transport stream": clip(format="mpegts"),
    "webm": clip(format="webm", codec="libvpx-vp9", frames=12),
    "avi": clip(format="avi", codec="mpeg4", options={"qmax": "2"}),
    "with sound": clip(audio=True),
}
FIRST_SHOWN = {"edit list": 10}


@pytest.mark.parametrize("name", SHOWN)
def test_times_and_frames_are_what_a_player_shows(name: str) -> None:
    data = SHOWN[name]
    assert list(facts_of(data).times.pts) == decoded_times(data)
    first = FIRST_SHOWN.get(name)
    numbers = numbers_of(data)
    assert numbers == list(range(numbers[0], numbers[0] + 5))
    if first is not None:
        assert (numbers[0], len(facts_of(data).times.pts)) == (first, 38)


def test_frames_of_an_open_start_that_do_not_decode_are_not_counted() -> None:
    data = SHOWN["open group of pictures"]
    with av.open(io.BytesIO(data), "r") as container:
        packets = sum(packet.size > 0 for packet in container.demux(video=0))
    assert len(facts_of(data).times.pts) < packets


def test_frames_of_an_avi_with_b_frames_come_in_the_order_shown() -> None:
    """FFmpeg gives them times in the order of decoding: 1, 2, 4, 3."""
    data = clip(frames=24, format="avi", options={"x264-params": "bframes=3:b-adapt=0"})
    times = decoded_times(data)
    assert times != sorted(times, key=lambda at: at or 0)
    sampling = ClipSampling(frame_counts=(13,))
    assert numbers_of(data, sampling) == [int(k * 1.5) for k in range(13)]


def test_a_slow_clip_repeats_frames() -> None:
    """As FastVideo's own tool does: arange(0, n, rate / train_fps)."""
    data = clip(frames=8, fps=Fraction(8))
    sampling = ClipSampling(frame_counts=(13,))
    assert numbers_of(data, sampling) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]


# -- lengths -----------------------------------------------------------------------------------

SMALL = ClipKind(width=32, height=32)


def test_a_short_clip_says_how_its_count_came_about() -> None:
    reject = reject_of(clip(SMALL, frames=101, fps=NTSC), GUIDE)
    assert reject.code == "video_too_short"
    assert reject.message == "101 frames at 23.98 fps -> 68 at 16 fps, 77 needed"
    reject = reject_of(clip(SMALL, frames=5), GUIDE)
    assert reject.message == "5 frames at 24 fps -> 4 at 16 fps, 77 needed"


def test_a_long_clip_is_refused_with_both_numbers() -> None:
    reject = reject_of(clip(SMALL, frames=300, fps=Fraction(10)), GUIDE)
    assert reject.code == "video_too_long"
    assert "30.00 s, limit 24.06 s" in reject.message


def test_one_frame_is_too_short() -> None:
    reject = reject_of(clip(frames=1), GUIDE)
    assert (reject.code, "1 frame at" in reject.message) == ("video_too_short", True)


# -- what cannot be read -----------------------------------------------------------------------


def test_a_stream_without_frames_is_unreadable() -> None:
    reject = reject_of(without_frames())
    assert reject.code == "unreadable_video"
    assert "0 frames" in reject.message


@pytest.mark.parametrize(
    ("data", "words"),
    [(sound_only(), "holds audio"), (sound_with_cover(), "audio, a cover picture")],
    ids=["audio only", "cover art only"],
)
def test_a_file_without_moving_pictures_has_no_video_stream(data: bytes, words: str) -> None:
    reject = reject_of(data)
    assert reject.code == "no_video_stream"
    assert words in reject.message


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (HTML, "HTML"),
        (b"", "empty"),
        (cut(clip(), share=0.6), "index is missing"),
        (cut(clip(NOISY), share=0.2), "cut: [0-9]+ bytes are missing.* 10 frames"),
        (cut(clip(NOISY, format="matroska", container={}), share=0.2), "cut: [0-9]+ bytes"),
        (cut(clip(NOISY), share=0.7), "cut: [0-9]+ bytes"),
        (overwritten(clip(NOISY), begin=0.3), "the frame at [0-9.]+ s is damaged"),
        (overwritten(clip(NOISY), begin=0.5, length=40_000), "cannot be decoded after [0-9.]+ s"),
        (b"#EXTM3U\n#EXTINF:5,\nfile:///etc/hostname\n", "not a clip"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "LFS pointer"),
    ],
    ids=[
        *("HTML", "empty", "index lost", "cut", "cut mkv", "cut later", "overwritten", "torn"),
        *("playlist", "LFS pointer"),
    ],
)
def test_what_is_broken_is_unreadable_video(data: bytes, words: str) -> None:
    sampling = ClipSampling(frame_counts=(45,), train_fps=Fraction(24))
    with pytest.raises(SampleReject, match=words) as caught:
        pixels_of(data, sampling)
    assert caught.value.code == "unreadable_video"
    assert not caught.value.transient


@pytest.mark.parametrize(
    "data", [cut(clip(NOISY), share=0.7), overwritten(clip(NOISY), begin=0.8)], ids=["cut", "noise"]
)
def test_damage_past_the_last_needed_frame_is_kept(data: bytes) -> None:
    assert np.array_equal(pixels_of(data), pixels_of(clip(NOISY)))


def test_neighbours_of_a_broken_clip_are_unharmed() -> None:
    good, bad = clip(NOISY), overwritten(clip(NOISY), begin=0.02, length=3000)
    before = pixels_of(good)
    assert reject_of(bad).code == "unreadable_video"
    assert np.array_equal(pixels_of(good), before)


def test_a_codec_that_nobody_has_is_named_as_such() -> None:
    reject = reject_of(of_unknown_codec())
    assert reject.code == "unsupported_codec"
    assert "convert it" in reject.message


# -- colour, fields ----------------------------------------------------------------------------


@pytest.mark.parametrize(("transfer", "name"), [(16, "PQ"), (18, "HLG")])
def test_hdr_is_refused_unless_it_is_allowed(transfer: int, name: str) -> None:
    data = clip(pix_fmt="yuv420p10le", color_trc=transfer)
    reject = reject_of(data)
    assert (reject.code, name in reject.message) == ("unsupported_colour", True)
    allowed = clip_facts(io.BytesIO(data), allow_hdr=True)
    assert any(note.startswith("HDR") for note in allowed.notes)


def test_ten_bits_and_fields_are_noted() -> None:
    assert facts_of(clip(pix_fmt="yuv420p10le")).notes == ("10-bit samples reduced to 8",)
    fields = facts_of(clip(options={"x264-params": "interlaced=1"})).notes
    assert fields == ("interlaced: both fields taken as one frame",)


# -- what else is said of a clip ---------------------------------------------------------------


def test_the_file_wins_over_the_table_with_one_note() -> None:
    facts = facts_of(clip())
    stated = {"resolution": {"width": 1280, "height": 720}, "fps": 24.0, "num_frames": 192}
    assert stated_note(facts, stated) == (
        "the table says 1280x720, 192 frames; taken from the file: 128x96, 24 frames"
    )
    right = {"resolution": {"width": 128, "height": 96}, "fps": 24, "num_frames": 24}
    assert stated_note(facts, right) is None
    assert stated_note(facts, {}) is None


def test_a_path_of_any_name_and_its_bytes_give_the_same(tmp_path: Path) -> None:
    data = clip()
    for name in ("a.mp4", "http:a.mp4", "%03d.mp4", "\N{CAT FACE} (1).mp4", "x.txt"):
        path = tmp_path / name
        path.write_bytes(data)
        info = probe_clip(path, sampling=SHORT, source_key="a.mp4")
        assert info == probed(data)
        pixels = read_pixels(path, wanted_pts=info.wanted_pts, width=96, height=64)
        assert np.array_equal(pixels, pixels_of(data))


def test_a_file_that_is_gone_is_no_reject(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        clip_facts(tmp_path / "gone.mp4")
