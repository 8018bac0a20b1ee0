r"""File names of any bytes as text that can be stored, and back; which names are safe.

A byte that is not UTF-8 is written `\xNN`. A backslash that would read as such an escape is
written `\x5c`, so that every name has exactly one text and every text one name.
"""

import re
import unicodedata
from abc import ABC, abstractmethod
from typing import Literal

from diffprep_resources.errors import SampleReject

_PICTURES = frozenset(
    ("jpg", "jpeg", "png", "webp", "gif", "bmp", "tif", "tiff", "heic", "heif", "avif", "jxl")
)
_CLIPS = frozenset(
    ("mp4", "m4v", "mov", "mkv", "webm", "avi", "ts", "m2ts", "mpg", "mpeg", "flv", "wmv", "ogv")
)
Media = Literal["pictures", "clips"]
NOUNS: dict[Media, str] = {"pictures": "picture", "clips": "clip"}
_TO_ESCAPE = re.compile(r"\\(?=x[0-9a-f]{2})|[\udc80-\udcff]")
_ESCAPED = re.compile(r"\\x(5c|[89a-f][0-9a-f])")


def name_from_bytes(raw: bytes) -> str:
    """The name as text: UTF-8, with other bytes escaped."""
    try:
        name = raw.decode("utf-8")
    except UnicodeDecodeError:
        name = raw.decode("utf-8", "surrogateescape")
    else:
        if "\\x" not in name:
            return name
    return _TO_ESCAPE.sub(lambda match: f"\\x{ord(match[0]) & 0xFF:02x}", name)


def name_to_bytes(name: str) -> bytes:
    """The bytes that `name_from_bytes` was given."""
    if "\\x" in name:
        name = _ESCAPED.sub(_unescape, name)
    return name.encode("utf-8", "surrogateescape")


def _unescape(match: re.Match[str]) -> str:
    code = int(match[1], 16)
    return "\\" if code == 0x5C else chr(0xDC00 + code)


def path_to_bytes(path: str) -> bytes:
    """A path of the recipe for the operating system, whatever the locale."""
    return path.encode("utf-8", "surrogateescape")


class FileRoot(ABC):
    """Where a source's files lie, when that is not one folder. Picklable."""

    @abstractmethod
    def folder_of(self, path: str) -> bytes:
        """The folder below which the file `path` lies, or would lie."""


Root = bytes | FileRoot


def is_safe(path: str) -> bool:
    """Whether a relative path from outside stays below the folder that it starts from."""
    return bool(path) and not (path.startswith("/") or ".." in path.split("/") or "\0" in path)


def inside(root: Root, path: str) -> bytes:
    """The file `path` below `root`. Raises SampleReject (unsafe_name) for a path that leaves it."""
    if not is_safe(path):
        raise SampleReject("unsafe_name", f"{path!r} would leave the source's folder")
    folder = root if isinstance(root, bytes) else root.folder_of(path)
    return folder + b"/" + name_to_bytes(path)


def split_suffix(path: str) -> tuple[str, str]:
    """The path without its last suffix, and that suffix in lower case without the dot, or ''."""
    slash = path.rfind("/")
    dot = path.rfind(".")
    if dot <= slash + 1:
        return path, ""
    return path[:dot], path[dot + 1 :].lower()


def is_picture(suffix: str) -> bool:
    """Whether a lower-case suffix names a picture format."""
    return suffix in _PICTURES


def is_clip(suffix: str) -> bool:
    """Whether a lower-case suffix names a container of clips. A gif is a picture."""
    return suffix in _CLIPS


def is_media(suffix: str, media: Media) -> bool:
    """Whether a lower-case suffix names a format of these media."""
    return is_clip(suffix) if media == "clips" else is_picture(suffix)


def composed(name: str) -> str:
    """The name in Unicode's composed form, by which names are compared: macOS writes an accent as a
    character of its own, other systems do not."""
    return name if name.isascii() else unicodedata.normalize("NFC", name)


def suffix_label(suffix: str) -> str:
    """How counts name a suffix."""
    return f".{suffix}" if suffix else "no suffix"


def is_hidden(path: str) -> bool:
    """Whether any part of the path begins with a dot."""
    return path.startswith(".") or "/." in path
