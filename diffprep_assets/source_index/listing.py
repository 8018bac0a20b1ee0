"""The source as it is now, with the parts of all that was there before."""

from dataclasses import replace

from diffprep_assets.dataset import Dataset
from diffprep_assets.recipe.contradictions import SOURCE_KEYS
from diffprep_assets.source_index.parts import (
    IndexedFile,
    RemoteFacts,
    SourceParts,
    assigned_parts,
)
from diffprep_assets.source_index.table import SourceIndex, read_index
from diffprep_resources.errors import SettingError
from diffprep_resources.sources.names import NOUNS
from diffprep_resources.sources.remote import RemoteSource
from diffprep_resources.sources.remote_catalog import ListedFile


def listed_index(dataset: Dataset, *, may_fetch: bool = True) -> SourceIndex:
    """The index that `source_index` would write now.

    With `max_samples`, a remote file may have to be fetched to count its samples; unless
    `may_fetch`, it is taken for large enough. Raises SettingError for an empty source.
    """
    old = read_index(dataset.layout.source_index)
    source = dataset.source
    listing = source.listing()
    if not listing.files:
        written = dataset.recipe.source
        key, noun = SOURCE_KEYS[written.type][0], NOUNS[dataset.field_keys.media]
        others = ", ".join(f"{count} {suffix}" for suffix, count in listing.other_files.items())
        raise SettingError(
            f"{dataset.loaded.path}: source.{key} ({getattr(written, key)}) holds no {noun}"
            + (f"; other files there: {others}" if others else "")
            + ". docs/sources.md says what is read as one"
        )
    remote = source if isinstance(source, RemoteSource) else None
    wanted = dataset.recipe.output.max_samples

    def count(file: IndexedFile) -> int:
        if remote is None:
            return source.num_samples(file.path)
        return remote.num_samples_in(file.part, file.path) if may_fetch else wanted or 0

    before = old.parts if old else SourceParts()
    counted = _counts_that_hold(before, remote) if remote else {}
    parts = assigned_parts(
        before,
        (
            (file.path, counted.get(file.path) if file.num_samples is None else file.num_samples)
            for file in listing.files
        ),
        files_per_part=source.files_per_part,
        max_samples=wanted,
        count=count,
    )
    if remote is None:
        return SourceIndex(parts, source.revision(), dict(listing.other_files))
    files = tuple(
        replace(file, remote=_facts(remote.listed_file(file.path))) if file.present else file
        for file in parts.files
    )
    return SourceIndex(
        replace(parts, files=files),
        source.revision(),
        dict(listing.other_files),
        origin=remote.store.origin,
        asked=remote.asked,
    )


def _counts_that_hold(before: SourceParts, remote: RemoteSource) -> dict[str, int | None]:
    """The samples of each file that was counted and has the same content now."""
    return {
        file.path: file.num_samples
        for file in before.files
        if file.remote is not None and remote.version_of(file.path) == file.remote.version
    }


def _facts(listed: ListedFile) -> RemoteFacts:
    file, caption = listed.file, listed.caption
    return RemoteFacts(
        size=file.size,
        version=file.version,
        caption_path=caption.path if caption else None,
        caption_size=caption.size if caption else None,
        caption_version=caption.version if caption else None,
    )
