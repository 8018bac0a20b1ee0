"""Opens every new or changed sample of a part once: its size, digest, captions and bucket."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, replace
from itertools import groupby

import xxhash

from diffprep_assets.bucket.geometry import target_for
from diffprep_assets.bucket.table import BucketRow
from diffprep_assets.freshness import digest_of
from diffprep_assets.recipe.schema import Captions, Image
from diffprep_resources.captions.text import caption_texts
from diffprep_resources.errors import SampleReject, SourceChangedError
from diffprep_resources.pictures.decode import PictureLimits, probe
from diffprep_resources.sources.base import FileStamp, Source, SourceSample

KeptRows = Mapping[str, list[BucketRow]]


@dataclass(frozen=True, slots=True)
class BucketRules:
    """What turns a picture and its captions into rows."""

    image: Image
    captions: Captions

    @property
    def limits(self) -> PictureLimits:
        return PictureLimits(max_pixels=self.image.max_pixels, min_side=self.image.min_side)


def scanned(
    stamps: Iterable[FileStamp], *, source: Source, rules: BucketRules, known: KeptRows
) -> Iterator[tuple[list[BucketRow], bool]]:
    """The rows of each picture in source order, and whether its bytes were read.

    `known` holds rows made by these very rules, by file; those of a file whose stamp is unchanged
    are taken over. One picture is in memory at a time. Raises SourceChangedError where a file that
    cannot be read is not as it was stamped: a source that goes meanwhile leaves no sample out.
    """

    def unchanged(stamp: FileStamp) -> bool:
        rows = known.get(stamp.path)
        return bool(rows) and rows[0].stamp == stamp_digest(stamp)

    for is_known, run in groupby(stamps, key=unchanged):
        if is_known:
            for stamp in run:
                for _, rows in groupby(known[stamp.path], key=lambda row: row.group):
                    yield list(rows), False
            continue
        changed = {stamp.path: stamp for stamp in run}
        digests = {path: stamp_digest(stamp) for path, stamp in changed.items()}
        for sample in source.samples(changed.values()):
            path = sample.location.path
            rows = rows_of(sample, rules=rules, stamp=digests[path])
            if rows[0].transient and [*source.stamps([path])] != [changed[path]]:
                raise SourceChangedError(
                    f"source changed since download: {sample.source_key}; run download again, as "
                    "`diffprep run` does"
                )
            yield rows, True


def stamp_digest(stamp: FileStamp) -> str:
    """Changes when a source file or its caption file changes on disk."""
    return digest_of(list(astuple(stamp)))[:16]


def rows_of(sample: SourceSample, *, rules: BucketRules, stamp: str) -> list[BucketRow]:
    """One row per caption taken of a picture, or a single row that rejects it."""
    blank = BucketRow(
        source_key=sample.source_key,
        group=sample.source_key,
        path=sample.location.path,
        offset=sample.location.offset,
        length=sample.location.length,
        row=sample.location.row,
        stamp=stamp,
    )
    try:
        pictured = _with_picture(blank, sample, rules)
        captions = caption_texts(
            sample.caption,
            choose=rules.captions.choose,
            lines=rules.captions.lines,
            allow_empty=rules.captions.allow_empty,
            seed_key=sample.source_key,
        )
    except SampleReject as reject:
        return [
            replace(blank, code=reject.code, message=reject.message, transient=reject.transient)
        ]
    pictured = replace(pictured, notes=(*pictured.notes, *captions.notes))
    if len(captions.texts) == 1:
        return [_with_caption(pictured, captions.texts[0])]
    return [
        replace(_with_caption(pictured, text), source_key=f"{sample.source_key}::c{number}")
        for number, text in enumerate(captions.texts)
    ]


def resized(rows: list[BucketRow], image: Image) -> list[BucketRow] | None:
    """The rows of one file under other size settings, without opening it.

    None when a row is a reject, or becomes one: then the file is looked at again.
    """
    try:
        return [_with_target(row, image) for row in rows]
    except SampleReject:
        return None


def _with_target(row: BucketRow, image: Image) -> BucketRow:
    if row.code is not None or row.original_width is None or row.original_height is None:
        raise SampleReject("no_image", "a rejected sample has no target")
    target = target_for(row.original_width, row.original_height, image=image)
    return replace(row, **asdict(target))


def _with_picture(row: BucketRow, sample: SourceSample, rules: BucketRules) -> BucketRow:
    if sample.reject is not None:
        raise sample.reject
    if sample.image is None:
        raise SampleReject("no_image", "the sample has no picture")
    info = probe(sample.image, limits=rules.limits)
    sized = replace(
        row,
        image_digest=xxhash.xxh3_128_hexdigest(sample.image),
        original_width=info.width,
        original_height=info.height,
        notes=info.notes,
    )
    return _with_target(sized, rules.image)


def _with_caption(row: BucketRow, text: str) -> BucketRow:
    return replace(row, caption=text, caption_digest=xxhash.xxh3_128_hexdigest(text.encode()))
