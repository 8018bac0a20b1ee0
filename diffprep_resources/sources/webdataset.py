"""WebDataset tars on a mounted filesystem; source_key is `<tar>::<key>`."""

import glob
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject, SettingError
from diffprep_resources.sources.base import (
    FILE_KEY,
    FileStamp,
    Listing,
    Location,
    SampleFields,
    Source,
    SourceFile,
    SourceSample,
    member_key,
    rejected,
)
from diffprep_resources.sources.fields import (
    DEFAULT_CAPTION_KEYS,
    FieldKeys,
    first_caption,
    lookup,
    parse_json,
)
from diffprep_resources.sources.local_files import (
    MAX_CAPTION_BYTES,
    MAX_IMAGE_BYTES,
    open_range,
    read_at,
    read_range,
    stamps_below,
)
from diffprep_resources.sources.names import (
    Root,
    inside,
    name_from_bytes,
    path_to_bytes,
    split_suffix,
    suffix_label,
)
from diffprep_resources.sources.tar_fields import TarFields
from diffprep_resources.sources.tar_headers import TarMember, tar_members
from diffprep_resources.sources.tar_samples import (
    TarIndex,
    TarPicture,
    caption_members,
    tar_index,
)

_COMPRESSED = (".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst")


class WebDatasetSource(Source):
    """Tars that a glob matches, each read by its headers first and then sample by sample."""

    def __init__(self, input_path: str, *, keys: FieldKeys | None = None) -> None:
        self._shown = input_path
        folder, self._pattern = fixed_folder(os.path.abspath(input_path))
        self._folder = path_to_bytes(folder)
        self._root: Root = self._folder
        self._keys = keys or FieldKeys()
        self._last: tuple[object, TarIndex] | None = None

    @classmethod
    def below(cls, root: Root, *, keys: FieldKeys) -> "WebDatasetSource":
        """A reader of tars that lie below `root`; it lists nothing."""
        source = cls("", keys=keys)
        source._root = root
        return source

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_last": None}

    def listing(self) -> Listing:
        """Every tar of the glob; its samples are not counted.

        Raises SettingError where no tar matches, or a compressed one does.
        """
        other: Counter[str] = Counter()
        files: list[str] = []
        seen: set[tuple[int, int]] = set()
        for path in self._matches():
            status = os.stat(inside(self._root, path))
            if path.lower().endswith(_COMPRESSED):
                raise SettingError(
                    f"source.input_path must match uncompressed tars, got {path}: "
                    f"{self._keys.media} are read at random places, which a compressed tar does "
                    "not allow; decompress it"
                )
            if split_suffix(path)[1] != "tar":
                other[suffix_label(split_suffix(path)[1])] += 1
            elif (status.st_dev, status.st_ino) in seen:
                other["link to a tar listed already"] += 1
            else:
                seen.add((status.st_dev, status.st_ino))
                files.append(path)
        if not files:
            raise SettingError(
                f"source.input_path must match at least one .tar file, got {self._shown} "
                "(*, ?, [] and ** are understood, braces are not); "
                f"found instead: {dict(other) or 'nothing'}"
            )
        return Listing([SourceFile(path, None) for path in files], dict(sorted(other.items())))

    def _matches(self) -> list[str]:
        pattern = path_to_bytes(self._pattern)
        found = glob.iglob(pattern, root_dir=self._folder, recursive=True)
        return sorted(
            {name_from_bytes(path) for path in found if os.path.isfile(self._folder + b"/" + path)}
        )

    def num_samples(self, path: str) -> int:
        """Pictures and rejects of one tar, from its headers."""
        return self._index(path).num_samples

    def other_members(self, path: str) -> dict[str, int]:
        """Members passed over, by kind: hidden ones, captions without a picture, other suffixes."""
        return dict(sorted(self._index(path).skipped.items()))

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each tar, in the order given."""
        return stamps_below(self._root, paths)

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """Every picture of the tars, in tar order; the last of a damaged tar is its own reject."""
        for stamp in stamps:
            index = self._index(stamp.path)
            if index.pictures:
                descriptor = os.open(inside(self._root, stamp.path), os.O_RDONLY)
                try:
                    for picture in index.pictures:
                        yield self._sample(stamp.path, picture, index, descriptor)
                finally:
                    os.close(descriptor)
            if index.damage is not None:
                key = member_key(stamp.path, FILE_KEY)
                yield rejected(key, Location(stamp.path), index.damage)

    def _sample(
        self, path: str, picture: TarPicture, index: TarIndex, descriptor: int
    ) -> SourceSample:
        key = member_key(path, picture.key)
        member = picture.member
        location = Location(path, offset=member.offset, length=member.size)
        if picture.reject is not None:
            return rejected(key, location, picture.reject)
        try:
            image = self._image(descriptor, member)
            caption = self._caption(picture, index, descriptor)
        except SampleReject as reject:
            return rejected(key, location, reject)
        return SourceSample(key, location, image, caption)

    def _image(self, descriptor: int, member: TarMember) -> bytes | None:
        """The picture's bytes; of a clip, which stays where it is, none."""
        if self._keys.media == "pictures":
            return _member_bytes(descriptor, member, max_bytes=MAX_IMAGE_BYTES)
        size = os.fstat(descriptor).st_size
        if size < member.offset + member.size:
            raise _truncated(member, size - member.offset)
        return None

    def _caption(self, picture: TarPicture, index: TarIndex, descriptor: int) -> object:
        json_keys = self._keys.caption_keys
        if "json" in json_keys:
            json_keys += DEFAULT_CAPTION_KEYS
        for member, path in caption_members(index, picture, keys=self._keys):
            data = _member_bytes(descriptor, member, max_bytes=MAX_CAPTION_BYTES)
            if path == "":
                return data
            parsed = parse_json(data, where=member.name)
            value = first_caption(parsed, json_keys) if path is None else lookup(parsed, path)
            if value is not None and not isinstance(value, dict):
                return value
        if index.damage is not None:
            message = (
                f"its caption is not among the members that can be read: {index.damage.message}"
            )
            raise SampleReject("truncated_archive", message)
        return None

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Fields of every picture of the tars, of the members that go with it."""
        for stamp in stamps:
            index = self._index(stamp.path)
            if index.pictures:
                with open(inside(self._root, stamp.path), "rb") as file:
                    reader = TarFields(index, file.fileno())
                    for picture in index.pictures:
                        key = member_key(stamp.path, picture.key)
                        yield SampleFields(key, reader.values(picture, names))

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """Names of fields of the first pictures of the first tar that has any."""
        for stamp in stamps:
            index = self._index(stamp.path)
            if index.pictures:
                with open(inside(self._root, stamp.path), "rb") as file:
                    return TarFields(index, file.fileno()).names()
        return set()

    def _index(self, path: str) -> TarIndex:
        """The index of a tar; that of the last one asked for is kept."""
        try:
            descriptor = os.open(inside(self._root, path), os.O_RDONLY)
        except (FileNotFoundError, PermissionError) as error:
            code = "source_missing" if isinstance(error, FileNotFoundError) else "unreadable_file"
            message = f"{path}: {error.strerror}"
            return TarIndex(damage=SampleReject(code, message, transient=True))
        try:
            status = os.fstat(descriptor)
            version = (path, status.st_ino, status.st_size, status.st_mtime_ns)
            last = self._last
            if last is None or last[0] != version:
                last = (version, tar_index(tar_members(descriptor), keys=self._keys))
                self._last = last
            return last[1]
        finally:
            os.close(descriptor)

    def read_image(self, location: Location) -> bytes:
        """The bytes of one member."""
        return read_range(self._root, location)

    def open_media(self, location: Location) -> AbstractContextManager[ClipSource]:
        """The clip's bytes where they lie."""
        return open_range(self._root, location)


def fixed_folder(pattern: str) -> tuple[str, str]:
    """The folder that every match of an absolute glob lies in, and the pattern within it.

    A folder stands for the tars in it; a path that exists is taken as it is written.
    """
    if os.path.isdir(pattern):
        return pattern, "*.[tT][aA][rR]"
    if os.path.exists(pattern):
        folder, name = os.path.split(pattern)
        return folder, glob.escape(name)
    folder = pattern
    while glob.has_magic(folder) and not os.path.isdir(folder):
        folder = os.path.dirname(folder)
    if folder == pattern:
        folder = os.path.dirname(pattern)
    return folder, pattern[len(folder) :].lstrip("/")


def _member_bytes(descriptor: int, member: TarMember, *, max_bytes: int) -> bytes:
    if member.size > max_bytes:
        message = f"{member.name} holds {member.size} bytes, at most {max_bytes} are read"
        raise SampleReject("too_large", message)
    data = read_at(descriptor, offset=member.offset, length=member.size)
    if len(data) < member.size:
        raise _truncated(member, len(data))
    return data


def _truncated(member: TarMember, have: int) -> SampleReject:
    return SampleReject("truncated_archive", f"{member.name} is cut at {max(0, have)} bytes")
