"""A local folder laid out like a Hub dataset, with parquet files; source_key is `<file>::<row>`."""

import io
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice, repeat

import pyarrow as pa
import pyarrow.parquet as pq

from diffprep_resources.clips.opening import ClipSource
from diffprep_resources.errors import SampleReject, SettingError, SourceChangedError
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
from diffprep_resources.sources.fields import DEFAULT_CAPTION_KEYS, FieldKeys, first_caption, lookup
from diffprep_resources.sources.hub_layout import HubChoice, files_of_split
from diffprep_resources.sources.local_files import (
    open_range,
    read_file,
    stamps_below,
    walk_files,
)
from diffprep_resources.sources.names import (
    Root,
    inside,
    path_to_bytes,
    split_suffix,
    suffix_label,
)
from diffprep_resources.sources.parquet_cells import (
    CellPlace,
    bytes_in_cell,
    check_cell,
    media_in_cell,
    scalar_value,
)
from diffprep_resources.sources.parquet_fields import column_names, row_values
from diffprep_resources.sources.parquet_rows import (
    UNREADABLE,
    Column,
    RowReader,
    as_reject,
    caption_column,
    group_rows,
    group_starts,
    image_column,
    open_parquet,
)

Columns = tuple[Column, Column | None]
MAX_ROW_REJECTS = 10_000
"""Rows of a damaged row group that are rejected one by one; more are one reject."""


class HuggingFaceSource(Source):
    """The parquet files of one split of a local dataset folder."""

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        choice: HubChoice | None = None,
        keys: FieldKeys | None = None,
    ) -> None:
        self._shown = os.fspath(folder)
        self._folder = path_to_bytes(os.path.abspath(self._shown))
        self._root: Root = self._folder
        self._choice = choice or HubChoice()
        self._keys = keys or FieldKeys()
        self._image_columns: dict[str, Column] = {}
        self._holds_clips = self._keys.media == "clips"
        # One clip is in memory, not a batch of them.
        self._reader = RowReader(cache_bytes=0, at_once=1) if self._holds_clips else RowReader()

    @classmethod
    def below(cls, root: Root, *, keys: FieldKeys) -> "HuggingFaceSource":
        """A reader of data files that lie below `root`; it lists nothing."""
        source = cls("", keys=keys)
        source._root = root
        return source

    def listing(self) -> Listing:
        """The split's data files with their row counts (None where the footer cannot be read).

        Raises SettingError where there is no parquet file, configuration or split, or the first
        readable file has no picture or caption column.
        """
        if not os.path.isdir(self._folder):
            raise SettingError(
                f"source.hf_dataset must be a local folder that exists, got {self._shown}"
            )
        other: Counter[str] = Counter()
        tables: list[str] = []
        for path in walk_files(self._folder, skipped=other):
            suffix = split_suffix(path)[1]
            if suffix == "parquet":
                tables.append(path)
            else:
                other[suffix_label(suffix)] += 1
        if not tables:
            raise SettingError(
                "source.hf_dataset must hold parquet files when it is a local folder; "
                f"{self._shown} holds {dict(other) or 'nothing'}"
            )
        paths = files_of_split(sorted(tables), self._choice, readme=self._readme())
        other["parquet of another split"] = len(tables) - len(paths)
        return Listing(list(self._counted(paths)), dict(sorted((+other).items())))

    def _readme(self) -> str:
        try:
            return read_file(self._root, "README.md", max_bytes=16 << 20).decode("utf-8", "replace")
        except SampleReject:
            return ""

    def _counted(self, paths: list[str]) -> Iterator[SourceFile]:
        checked = False
        for path in paths:
            try:
                with open_parquet(inside(self._root, path)) as file:
                    num_rows = group_starts(file)[-1]
                    schema = file.schema_arrow
            except UNREADABLE as error:
                as_reject(error, what=path)
                yield SourceFile(path, None)
                continue
            if not checked:
                image_column(schema, self._keys)
                caption_column(schema, self._keys)
                checked = True
            yield SourceFile(path, num_rows)

    def num_samples(self, path: str) -> int:
        """Rows by the footer; 1, the file's reject, where footer or columns are unusable."""
        try:
            with open_parquet(inside(self._root, path)) as file:
                image_column(file.schema_arrow, self._keys)
                return group_starts(file)[-1]
        except SettingError:
            return 1
        except UNREADABLE as error:
            as_reject(error, what=path)
            return 1

    def stamps(self, paths: Iterable[str]) -> Iterator[FileStamp]:
        """The stamp of each data file, in the order given."""
        return stamps_below(self._root, paths)

    def samples(self, stamps: Iterable[FileStamp]) -> Iterator[SourceSample]:
        """One sample or reject per row, in order; an unreadable file is one reject."""
        for stamp in stamps:
            try:
                file = open_parquet(inside(self._root, stamp.path))
            except UNREADABLE as error:
                yield self._file_reject(stamp.path, as_reject(error, what=stamp.path))
                continue
            with file:
                yield from self._rows(stamp.path, file)

    def _file_reject(self, path: str, reject: SampleReject) -> SourceSample:
        return rejected(member_key(path, FILE_KEY), Location(path), reject)

    def _rows(self, path: str, file: pq.ParquetFile) -> Iterator[SourceSample]:
        try:
            starts = group_starts(file)
            schema = file.schema_arrow
            image = image_column(schema, self._keys)
        except SettingError as error:
            yield self._file_reject(path, SampleReject("unreadable_file", f"{path}: {error}"))
            return
        except UNREADABLE as error:
            yield self._file_reject(path, as_reject(error, what=path))
            return
        try:
            caption = caption_column(schema, self._keys)
        except SettingError:
            caption = None
        # A clip is read by `_value_of`, where `open_media` finds it again.
        read = (caption,) if self._holds_clips else (image, caption)
        names = list(dict.fromkeys(column.name for column in read if column))
        for group in range(len(starts) - 1):
            scalars = group_rows(file, group, names) if names else repeat({})
            rows = range(starts[group], starts[group + 1])
            yield from self._group(path, scalars, rows=rows, columns=(image, caption))

    def _group(
        self, path: str, found: Iterator[dict[str, pa.Scalar]], *, rows: range, columns: Columns
    ) -> Iterator[SourceSample]:
        """A sample or reject for each of `rows`, whatever can be read of them."""
        row = rows.start
        reject = SampleReject("unreadable_file", f"{path} has fewer rows than it claims")
        try:
            for scalars in islice(found, len(rows)):
                yield self._sample(Location(path, row=row), scalars=scalars, columns=columns)
                row += 1
        except (*UNREADABLE, IndexError) as error:
            reject = as_reject(error, what=f"{path}, rows {row} to {rows.stop - 1}")
        if rows.stop - row > MAX_ROW_REJECTS:
            key = member_key(path, f"{row}-{rows.stop - 1}")
            yield rejected(key, Location(path, row=row), reject)
            return
        for lost in range(row, rows.stop):
            yield rejected(member_key(path, lost), Location(path, row=lost), reject)

    def _sample(
        self, location: Location, *, scalars: dict[str, pa.Scalar], columns: Columns
    ) -> SourceSample:
        key = member_key(location.path, location.row)
        image_at, caption_at = columns
        try:
            image = caption = None
            if self._holds_clips:
                check_cell(self._value_of(location, image_at), self._at(location))
            else:
                value = scalar_value(scalars[image_at.name], where=f"the picture of {key}")
                image = bytes_in_cell(lookup(value, image_at.path), self._at(location))
            if caption_at is not None:
                value = scalar_value(scalars[caption_at.name], where=f"the caption of {key}")
                caption = first_caption(lookup(value, caption_at.path), DEFAULT_CAPTION_KEYS)
        except SampleReject as reject:
            return rejected(key, location, reject)
        return SourceSample(key, location, image, caption)

    def _value_of(self, location: Location, column: Column | None = None) -> object:
        """The picture or clip of one row, as its cell has it."""
        column = column or self._column(location.path)
        path = inside(self._root, location.path)
        value = self._reader.value(path, column=column.name, row=location.row)
        return lookup(value, column.path)

    def _at(self, location: Location) -> CellPlace:
        return CellPlace(self._root, location, self._keys.media)

    def fields(self, stamps: Iterable[FileStamp], names: Sequence[str]) -> Iterator[SampleFields]:
        """Values of every row, of the columns that the names lead to; bytes are not read."""
        for stamp in stamps:
            try:
                file = open_parquet(inside(self._root, stamp.path))
            except UNREADABLE as error:
                as_reject(error, what=stamp.path)
                continue
            with file:
                for row, values in enumerate(row_values(file, names, what=stamp.path)):
                    yield SampleFields(member_key(stamp.path, row), values)

    def field_names(self, stamps: Iterable[FileStamp]) -> set[str]:
        """The columns of the first file that can be read, and what is in them by dotted path."""
        for stamp in stamps:
            try:
                with open_parquet(inside(self._root, stamp.path)) as file:
                    return column_names(file.schema_arrow)
            except UNREADABLE as error:
                as_reject(error, what=stamp.path)
        return set()

    def read_image(self, location: Location) -> bytes:
        """The picture of one row."""
        with self._as_bucketed(location):
            return bytes_in_cell(self._value_of(location), self._at(location))

    @contextmanager
    def open_media(self, location: Location) -> Iterator[ClipSource]:
        """The clip of one row: its bytes in memory, or the file that the row names."""
        with self._as_bucketed(location):
            found = media_in_cell(self._value_of(location), self._at(location))
        if isinstance(found, bytes):
            yield io.BytesIO(found)
            return
        with open_range(self._root, Location(found)) as clip:
            yield clip

    def _column(self, path: str) -> Column:
        if path not in self._image_columns:
            with open_parquet(inside(self._root, path)) as file:
                self._image_columns[path] = image_column(file.schema_arrow, self._keys)
        return self._image_columns[path]

    @contextmanager
    def _as_bucketed(self, location: Location) -> Iterator[None]:
        """A block in which a row that is not as `bucket` saw it raises SourceChangedError."""
        try:
            yield
        except (*UNREADABLE, SampleReject, IndexError) as error:
            if isinstance(error, OSError):
                as_reject(error, what=location.path)
            raise SourceChangedError(
                f"source changed since bucket: row {location.row} of {location.path} ({error}); "
                "run download and bucket again, as `diffprep run` does"
            ) from error
