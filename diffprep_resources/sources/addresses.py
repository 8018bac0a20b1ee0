"""Remote addresses as a recipe writes them: what they may hold, braces, and the fixed folder."""

import itertools
import re
from urllib.parse import urlsplit

from diffprep_resources.errors import SettingError

LOCAL_HOSTS = frozenset({"localhost", "127.0.0.1", "::1"})
MAX_ADDRESSES = 1_000_000
_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_MAGIC = re.compile(r"[*?\[]")


def checked_address(text: str, *, key: str) -> str:
    """The address. Raises SettingError for one of another kind, or one that holds a secret, since
    recipes are recorded and published."""
    try:
        parts = urlsplit(text)
        _ = parts.port
    except ValueError as error:
        raise SettingError(f"{key} is not an address that can be read: {error}") from error
    local = parts.scheme == "http" and parts.hostname in LOCAL_HOSTS
    if parts.scheme not in ("s3", "https") and not local:
        raise SettingError(
            f"{key} must be a local path, or begin with s3:// or https://; got "
            f"{parts.scheme}://{parts.hostname or ''}"
        )
    if "@" in parts.netloc:
        raise SettingError(
            f"{key} must hold no user name or password ({parts.scheme}://{parts.hostname}): "
            "recipes are recorded; use the environment's own login"
        )
    if parts.scheme != "s3" and (parts.query or parts.fragment):
        raise SettingError(
            f"{key} must hold no query ({parts.scheme}://{parts.netloc}{parts.path}?...): signed "
            "addresses expire and would be recorded"
        )
    return text


def is_s3(address: str) -> bool:
    return address.startswith("s3://")


def has_magic(address: str) -> bool:
    """Whether `*`, `?` or `[]` stand in the address."""
    return _first_magic(address) is not None


def expanded(pattern: str, *, key: str) -> list[str]:
    """The pattern with `{a,b}` and `{000..012}` written out, in order.

    Raises SettingError for braces that hold neither, or too many addresses.
    """
    pieces: list[list[str]] = []
    at = total = 0
    for match in _BRACES.finditer(pattern):
        choices = _choices(match[1], key=key)
        pieces += [[pattern[at : match.start()]], choices]
        total = (total or 1) * len(choices)
        if total > MAX_ADDRESSES:
            raise SettingError(f"{key} stands for more than {MAX_ADDRESSES:,} files: {pattern}")
        at = match.end()
    pieces.append([pattern[at:]])
    return ["".join(words) for words in itertools.product(*pieces)]


def _choices(inner: str, *, key: str) -> list[str]:
    numbers = _RANGE.fullmatch(inner)
    if numbers:
        first, last = numbers.groups()
        if int(last) - int(first) > MAX_ADDRESSES:
            raise SettingError(f"{key} stands for more than {MAX_ADDRESSES:,} files")
        if int(last) < int(first):
            raise SettingError(f"{key}: the braces {{{inner}}} count down; write them upwards")
        width = len(first) if first.startswith("0") else 0
        return [f"{number:0{width}d}" for number in range(int(first), int(last) + 1)]
    if "," in inner:
        return inner.split(",")
    raise SettingError(f"{key}: braces hold {{000..012}} or {{a,b}}, got {{{inner}}}")


def fixed_folder(addresses: list[str]) -> str:
    """The folder that every match of the addresses lies in, ending in a slash."""
    folders = [_folder(address).split("/") for address in addresses]
    common = list(
        itertools.takewhile(lambda names: len(set(names)) == 1, zip(*folders, strict=False))
    )
    return "/".join(names[0] for names in common) + "/"


def _folder(address: str) -> str:
    return address[: _first_magic(address)].rpartition("/")[0]


def _first_magic(address: str) -> int | None:
    """Where the first wildcard stands; the brackets of an IPv6 host are none."""
    host = address.find("://") + 3
    match = _MAGIC.search(address, max(host, address.find("/", host)))
    return match.start() if match else None
