from pathlib import Path

import pytest

from diffprep_resources.errors import SettingError
from diffprep_resources.hub.access import HubAccess, read_token


def token_file(folder: Path, content: bytes, mode: int = 0o600) -> Path:
    path = folder / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("mode", [0o600, 0o400])
def test_a_private_file_gives_its_token_without_the_line_end(tmp_path: Path, mode: int) -> None:
    assert read_token(token_file(tmp_path, b"  hf_abc\r\n", mode)) == "hf_abc"


@pytest.mark.parametrize("mode", [0o644, 0o640, 0o660, 0o700, 0o604])
def test_a_file_that_others_may_read_is_refused_naming_the_mode(tmp_path: Path, mode: int) -> None:
    with pytest.raises(SettingError, match=rf"600 or 400, got {mode:03o}"):
        read_token(token_file(tmp_path, b"hf_abc", mode))


@pytest.mark.parametrize(
    "content", [b"", b"\n", b"hf_a hf_b", b"hf_a\nhf_b", b"hf_\xe9", b"hf\x00x"]
)
def test_what_is_no_token_is_refused_without_being_quoted(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(SettingError) as caught:
        read_token(token_file(tmp_path, content))
    assert "one token" in str(caught.value)
    assert "hf_a" not in str(caught.value)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="no-such"):
        read_token(tmp_path / "no-such")


def test_access_shows_no_token(tmp_path: Path) -> None:
    access = HubAccess(token_file=token_file(tmp_path, b"hf_secret"))
    assert access.token() == "hf_secret"
    assert "hf_secret" not in repr(access)
    assert HubAccess().token() is None
