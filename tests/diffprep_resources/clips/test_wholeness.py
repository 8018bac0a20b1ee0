import io

import pytest

from diffprep_resources.clips.wholeness import missing_bytes
from tests.cases.clip_files import FRAGMENTED, clip


@pytest.mark.parametrize(
    "data",
    [clip(), clip(format="matroska"), clip(format="webm", codec="vp8")],
    ids=["mp4", "mkv", "webm"],
)
def test_a_file_lacks_exactly_what_was_cut(data: bytes) -> None:
    assert missing_bytes(io.BytesIO(data)) == 0
    assert missing_bytes(io.BytesIO(data[:-100])) == 100


def test_a_fragmented_file_lacks_the_rest_of_the_fragment_that_was_cut() -> None:
    data = clip(container=FRAGMENTED)
    assert missing_bytes(io.BytesIO(data)) == 0
    assert 0 < missing_bytes(io.BytesIO(data[:-100])) < 100


def test_other_files_do_not_tell() -> None:
    for data in (b"", b"x", b"\x1a\x45\xdf\xa3", clip(format="mpegts")[:-100]):
        assert missing_bytes(io.BytesIO(data)) == 0
