import json
import os
from pathlib import Path

import pytest
import xxhash

from diffprep_resources.hub.digests import DigestCache, file_digest


def test_a_digest_is_of_the_bytes_across_blocks(tmp_path: Path) -> None:
    data = bytes(range(256)) * (9 * 4096)
    (tmp_path / "a").write_bytes(data)
    (tmp_path / "empty").write_bytes(b"")
    assert len(data) > 8 << 20
    assert file_digest(tmp_path / "a") == xxhash.xxh3_128_hexdigest(data)
    assert file_digest(tmp_path / "empty") == xxhash.xxh3_128_hexdigest(b"")


def test_an_unchanged_file_is_not_read_again(tmp_path: Path) -> None:
    file, cache = tmp_path / "a", tmp_path / "cache" / "digests.json"
    file.write_bytes(b"one")
    first = DigestCache(cache).digests([file])
    entries = json.loads(cache.read_text())
    entries[str(file)][3] = "from the cache"
    cache.write_text(json.dumps(entries))
    assert first == [xxhash.xxh3_128_hexdigest(b"one")]
    assert DigestCache(cache).digests([file]) == ["from the cache"]


def test_a_file_of_equal_size_and_mtime_is_noticed(tmp_path: Path) -> None:
    file, cache = tmp_path / "a", tmp_path / "digests.json"
    file.write_bytes(b"one")
    DigestCache(cache).digests([file])
    status = file.stat()
    file.write_bytes(b"two")
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert DigestCache(cache).digests([file]) == [xxhash.xxh3_128_hexdigest(b"two")]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"a": 1}', '{"a": [1, 2, 3]}', "\x00"])
def test_a_spoilt_cache_costs_only_time(tmp_path: Path, content: str) -> None:
    file, cache = tmp_path / "a", tmp_path / "digests.json"
    file.write_bytes(b"one")
    cache.write_text(content)
    assert DigestCache(cache).digests([file]) == [xxhash.xxh3_128_hexdigest(b"one")]
    assert json.loads(cache.read_text())[str(file)][3] == xxhash.xxh3_128_hexdigest(b"one")


def test_a_cache_that_cannot_be_written_costs_only_time(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"one")
    assert DigestCache(file / "digests.json").digests([file]) == [xxhash.xxh3_128_hexdigest(b"one")]
    assert DigestCache(None).digests([file, file]) == [xxhash.xxh3_128_hexdigest(b"one")] * 2


def test_other_entries_are_kept(tmp_path: Path) -> None:
    one, two, cache = tmp_path / "1", tmp_path / "2", tmp_path / "digests.json"
    one.write_bytes(b"one")
    two.write_bytes(b"two")
    DigestCache(cache).digests([one])
    DigestCache(cache).digests([two])
    assert set(json.loads(cache.read_text())) == {str(one), str(two)}
