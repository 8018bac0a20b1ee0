import os
from pathlib import Path

import xxhash

from diffprep_resources.clips.digest import clip_digest
from diffprep_resources.clips.file_slice import file_slice


def test_a_path_and_a_slice_of_a_file_give_the_digest_of_the_bytes(tmp_path: Path) -> None:
    data = os.urandom((1 << 20) + 5)
    wanted = xxhash.xxh3_128_hexdigest(data)
    (tmp_path / "whole").write_bytes(data)
    (tmp_path / "tar").write_bytes(b"before" + data + b"behind")
    assert clip_digest(tmp_path / "whole") == wanted
    with file_slice(tmp_path / "tar", offset=6, length=len(data)) as clip:
        clip.read(100)
        assert clip_digest(clip) == wanted
