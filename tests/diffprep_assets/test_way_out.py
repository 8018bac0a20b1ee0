import errno
import os

import pytest

from diffprep_assets.way_out import with_way_out


def words_of(number: int) -> str:
    return str(OSError(number, os.strerror(number), "/data/file"))


@pytest.mark.parametrize(
    ("number", "way"),
    [
        (errno.ENOSPC, "make room there"),
        (errno.EROFS, "make it writable"),
        (errno.EACCES, "give this user the right"),
        (errno.ESTALE, "mount it again"),
        (errno.EMFILE, "ulimit -n"),
    ],
)
def test_an_error_of_the_disk_is_told_with_its_file_and_the_way_out(number: int, way: str):
    words = with_way_out(words_of(number))
    assert words.startswith(f"[Errno {number}] {os.strerror(number)}: '/data/file'; ")
    assert way in words
    assert words.endswith("run again; what is finished is kept")
    # Once is enough.
    assert with_way_out(words) == words


def test_other_words_stay_as_they_are():
    missing = words_of(errno.ENOENT)
    both = f"shard: 2 failed: a: {words_of(errno.ENOSPC)}; b: {words_of(errno.EROFS)}"
    for words in ("no recipe x", missing, both):
        assert with_way_out(words) == words


def test_several_failures_of_one_kind_have_one_way_out():
    words = with_way_out(f"2 failed: a: {words_of(errno.EIO)}; b: {words_of(errno.EIO)}")
    assert words.count("what is finished is kept") == 1
