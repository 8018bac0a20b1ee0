"""The two tables by which FastVideo's users keep clips: `videos2caption.json`, or two text files.

videos/, videos2caption.json      the merged folder; a `path` is relative to videos/
videos/, videos.txt, prompt.txt   the raw folder; line n of one belongs to line n of the other
"""

import json
import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from diffprep_resources.captions.encoding import decode_text
from diffprep_resources.errors import SampleReject, SourceAccessError
from diffprep_resources.sources.names import composed, is_safe, split_suffix

VIDEOS = "videos"
MERGED_TABLE = "videos2caption.json"
RAW_VIDEOS, RAW_PROMPTS = "videos.txt", "prompt.txt"
FILES_OF = {MERGED_TABLE: (MERGED_TABLE,), RAW_PROMPTS: (RAW_VIDEOS, RAW_PROMPTS)}
"""The files of each table, by the one that holds its captions."""
CAPTION_KEYS = ("cap", "caption")
_NOT_CLIPS = ("parquet", "tar")

ReadFile = Callable[[str], bytes]


@dataclass(frozen=True, slots=True)
class VideoEntry:
    """One clip that a table names. `path` is relative to the source's folder; `caption` is raw, as
    a SourceSample's; `stated` is what the table says of the clip, which is not believed."""

    path: str
    caption: object
    stated: Mapping[str, Any] = field(default_factory=dict)
    reject: SampleReject | None = None


def is_video_table(path: str) -> bool:
    """Whether a path is that of a file which holds the captions of a table of clips."""
    return path in FILES_OF


def table_among(paths: Collection[str]) -> str | None:
    """The table that a folder with these files is read by, named by the file of its captions."""
    known = set(paths)
    return next((table for table, files in FILES_OF.items() if known.issuperset(files)), None)


def table_entries(table: str, read: ReadFile) -> list[VideoEntry]:
    """The clips of the table in its order. Raises SourceAccessError where it cannot be used."""
    if table == MERGED_TABLE:
        return merged_entries(read(MERGED_TABLE))
    return raw_entries(read(RAW_VIDEOS), read(RAW_PROMPTS))


def entries_by_path(entries: Iterable[VideoEntry]) -> dict[str, VideoEntry]:
    """The entries by composed path; of several that name one clip, one with all their captions."""
    found: dict[str, VideoEntry] = {}
    for entry in entries:
        name = composed(entry.path)
        before = found.get(name)
        if before is None:
            found[name] = entry
        else:
            captions = [*_listed(before.caption), *_listed(entry.caption)]
            found[name] = replace(before, caption=captions)
    return found


def _listed(caption: object) -> list[object]:
    if caption is None:
        return []
    return caption if isinstance(caption, list) else [caption]


def merged_entries(data: bytes) -> list[VideoEntry]:
    """The clips of videos2caption.json in its order. Raises SourceAccessError where it is no list
    of objects."""
    try:
        content = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise SourceAccessError(f"{MERGED_TABLE} is no JSON: {error}") from error
    if not isinstance(content, list):
        raise SourceAccessError(
            f"{MERGED_TABLE} must be a list of objects with path and cap, got "
            f"{type(content).__name__}"
        )
    return [_merged_entry(number, item) for number, item in enumerate(content)]


def _merged_entry(number: int, item: object) -> VideoEntry:
    row = item if isinstance(item, Mapping) else {}
    caption = next((row[key] for key in CAPTION_KEYS if row.get(key) is not None), None)
    name = row.get("path")
    where = f"{MERGED_TABLE}::{number}"
    if not isinstance(name, str) or not name:
        reject = SampleReject("unreadable_file", f"entry {number} of {MERGED_TABLE} has no path")
        return VideoEntry(where, caption, row, reject)
    return replace(_named(name, caption, where=where), stated=row)


def raw_entries(videos: bytes, prompts: bytes) -> list[VideoEntry]:
    """The clips of videos.txt in its order, each with its line of prompt.txt.

    FastVideo's guide names clips by name, its script wants `videos/<name>`: both are taken. Its
    script drops blank lines of each file apart, which shifts the pairs after one; here a line
    without its partner is an error. Raises SourceAccessError.
    """
    names, texts = _lines(videos, RAW_VIDEOS), _lines(prompts, RAW_PROMPTS)
    while names and not names[-1]:
        names.pop()
    while len(texts) > len(names) and not texts[-1]:
        texts.pop()
    if len(names) != len(texts):
        raise SourceAccessError(
            f"{RAW_VIDEOS} has {len(names)} lines, {RAW_PROMPTS} {len(texts)}: line n of one "
            "belongs to line n of the other"
        )
    entries: list[VideoEntry] = []
    for number, (name, text) in enumerate(zip(names, texts, strict=True), start=1):
        if name:
            short = name.replace("\\", "/").removeprefix("./").removeprefix(f"{VIDEOS}/")
            entries.append(_named(short or name, text, where=f"{RAW_VIDEOS}::{number}"))
        elif text:
            raise SourceAccessError(f"line {number} of {RAW_VIDEOS} is blank, its prompt is not")
    return entries


def _named(name: str, caption: object, *, where: str) -> VideoEntry:
    """The entry of a clip below videos/; `where` stands for the path of one that is not."""
    path = name.replace("\\", "/")
    if not is_safe(path):
        reject = SampleReject("unsafe_name", f"{name!r} would leave {VIDEOS}/")
        return VideoEntry(where, caption, reject=reject)
    if split_suffix(path)[1] in _NOT_CLIPS:
        reject = SampleReject("unreadable_video", f"{name!r} is not the name of a clip")
        return VideoEntry(where, caption, reject=reject)
    return VideoEntry(posixpath.normpath(f"{VIDEOS}/{path}"), caption)


def _lines(data: bytes, name: str) -> list[str]:
    """The lines, as a text file has them, without white space around them."""
    try:
        text = decode_text(data).text.removeprefix("\ufeff")
    except SampleReject as reject:
        raise SourceAccessError(f"{name}: {reject.message}") from reject
    return [line.strip() for line in re.split(r"\r\n|\r|\n", text)]
