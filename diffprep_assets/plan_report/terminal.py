"""The plan on one screen of a terminal."""

from collections.abc import Iterator, Mapping, Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from diffprep_assets.plan_report.facts import BucketFacts, PlanFacts
from diffprep_assets.plan_report.plan_warnings import PlanWarning
from diffprep_assets.plan_report.words import (
    caption_sentences,
    clip_sentences,
    disk_sentences,
    encoder_name,
    loading_sentence,
    output_sentence,
    probe_sentence,
    sample_sentence,
    stage_words,
    verdict_words,
)
from diffprep_assets.quantities import bytes_text, duration_text, share_text
from diffprep_assets.run_report import in_one_line

BUCKETS_SHOWN = 16
BAR = 12
BAR_COLUMN = 4
# Columns of a terminal in which the whole table of buckets fits.
WIDE = 98


def plan_screen(facts: PlanFacts, warnings: Sequence[PlanWarning], *, width: int) -> Group:
    """Everything, section by section, warnings last, where the eye ends. `width` in characters."""
    parts: list[RenderableType] = [
        Text.from_markup(
            f"[bold]{escape(facts.dataset)}[/]  [dim]{escape(facts.source)}; {escape(facts.sizing)}"
        )
    ]
    for title, lines in (
        ("Samples", _samples(facts)),
        ("Clips", _clips(facts)),
        ("Buckets", _buckets(facts, narrow=width < WIDE)),
        ("Captions", _captions(facts)),
        ("Loading", iter([_sentence(loading_sentence(facts))])),
        ("Bytes", _bytes(facts)),
        ("Time", _time(facts, narrow=width < WIDE)),
        ("Models", _models(facts)),
        ("Warnings", _warnings(warnings)),
    ):
        found = list(lines)
        if found:
            parts += [Text(f"\n{title}", style="bold"), Padding(Group(*found), (0, 0, 0, 2))]
    return Group(*parts)


def _sentence(words: str, style: str = "") -> Text:
    return Text(in_one_line(words), style=style)


def _table(*columns: str, left: int = 1) -> Table:
    """A table without lines, its first `left` columns of words."""
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim")
    for number, name in enumerate(columns):
        table.add_column(name, justify="left" if number < left else "right", no_wrap=True)
    return table


def _samples(facts: PlanFacts) -> Iterator[RenderableType]:
    samples = facts.samples
    yield _sentence(sample_sentence(facts))
    # What curation left out is told by rule.
    told = {verdict.code for verdict in samples.verdicts}
    for code, reject in samples.rejects.items():
        if code not in told:
            yield _sentence(f"{code} {reject.samples:,}", "yellow")
            yield from _named(reject.first, of=reject.samples)
    for verdict in samples.verdicts:
        yield _sentence(verdict_words(verdict), "yellow")
        yield from _named(verdict.first, of=verdict.samples)
    for words, counts in (("noted", samples.notes), ("not read", samples.other_files)):
        if counts:
            named = [f"{name} {count:,}" for name, count in list(counts.items())[:5]]
            yield _sentence(f"{words}: {', '.join(named)}", "dim")


def _named(first: Sequence[Mapping[str, str]], *, of: int) -> Iterator[RenderableType]:
    """The first few samples, a line each, and how many more there are."""
    for sample in first:
        words = f"  {sample['source_key']}: {sample['message']}"
        yield Text(in_one_line(words), style="dim", overflow="ellipsis", no_wrap=True)
    if of > len(first):
        yield _sentence(f"  and {of - len(first):,} more", "dim")


def _clips(facts: PlanFacts) -> Iterator[RenderableType]:
    for words in clip_sentences(facts.clips) if facts.clips else ():
        yield _sentence(words)


def _buckets(facts: PlanFacts, *, narrow: bool) -> Iterator[RenderableType]:
    """A row a bucket; a narrow one leaves out what the other columns tell too."""
    table = _table(
        *(() if narrow else ("tier",)),
        *("size", "samples", "share"),
        *(() if narrow else ("",)),
        *("MP kept", "cut off", "enlarged", "shards", "left over"),
        left=1 if narrow else 2,
    )
    if not narrow:
        table.columns[BAR_COLUMN].justify = "left"
    shown = sorted(facts.buckets, key=lambda bucket: -bucket.samples)[:BUCKETS_SHOWN]
    most = max(bucket.share for bucket in shown)
    for bucket in (bucket for bucket in facts.buckets if bucket in shown):
        cells = _bucket_cells(bucket, most)
        table.add_row(*(cells[1:BAR_COLUMN] + cells[BAR_COLUMN + 1 :] if narrow else cells))
    yield table
    if len(facts.buckets) > len(shown):
        rest = facts.samples.kept - sum(bucket.samples for bucket in shown)
        yield _sentence(
            f"and {len(facts.buckets) - len(shown)} smaller buckets with {rest:,} samples; --html "
            f"and --json show all",
            "dim",
        )


def _bucket_cells(bucket: BucketFacts, most: float) -> list[str | Text]:
    bar = "\u2588" * max(1, round(BAR * bucket.share / most))
    loss = share_text(bucket.crop_loss)
    upscaled = bucket.upscaled / bucket.samples
    return [
        str(bucket.tier),
        bucket.size,
        f"{bucket.samples:,}",
        share_text(bucket.share),
        Text(bar, style="blue"),
        f"{bucket.megapixels:.2f}",
        Text(loss, style="yellow" if bucket.crop_loss > 0.25 else ""),
        Text(share_text(upscaled), style="yellow" if upscaled > 0.1 else ""),
        f"{bucket.shards:,}",
        f"{bucket.left_over:,}",
    ]


def _captions(facts: PlanFacts) -> Iterator[RenderableType]:
    captions = facts.captions
    if captions.tokens:
        table = _table("tokens", "limit", "median", "95%", "99%", "longest", "cut short")
        for role, tokens in sorted(captions.tokens.items(), reverse=True):
            numbers = (tokens.limit, tokens.median, tokens.p95, tokens.p99, tokens.longest)
            cells = [f"{number:,}" for number in numbers]
            table.add_row(encoder_name(role), *cells, share_text(tokens.truncated_share))
        yield table
    for words in caption_sentences(captions, may_be_shorter=facts.clips is None):
        yield _sentence(words)


def _bytes(facts: PlanFacts) -> Iterator[RenderableType]:
    sizes = facts.sizes
    if sizes is None:
        return
    for output in sizes.outputs:
        yield _sentence(output_sentence(output))
    if sizes.intermediates:
        kept = "kept" if sizes.kept else "removed as shards are written"
        rows = (
            *(("latents", sizes.latents), ("text", sizes.text)),
            ("first frames", sizes.first_frames),
        )
        named = ", ".join(f"{name} {bytes_text(size)}" for name, size in rows if size)
        yield _sentence(
            f"{bytes_text(sizes.output)} of output; {bytes_text(sizes.intermediates)} of "
            f"intermediates ({kept}): {named}"
        )
    for disk, words in zip(facts.disks, disk_sentences(facts), strict=True):
        yield _sentence(words, "" if disk.needed <= disk.free else "bold red")


def _time(facts: PlanFacts, *, narrow: bool) -> Iterator[RenderableType]:
    """A row a stage; a narrow one leaves out how long the encoders load."""
    probe = facts.probe
    if probe.stages:
        loading = () if narrow else ("loading",)
        table = _table("stage", "still to do", "whole dataset", *loading, "a second", "workers")
        for stage, time in probe.stages.items():
            rate = time.workers * time.timed / max(time.timed_seconds, 1e-9)
            table.add_row(
                stage_words(facts)[stage],
                duration_text(time.seconds) if time.seconds else "nothing",
                duration_text(time.whole_seconds),
                *((duration_text(time.load_seconds) if time.load_seconds else "",) * len(loading)),
                f"{rate:,.1f}",
                str(time.workers),
            )
        yield table
    yield _sentence(probe_sentence(probe), "" if probe.failed is None else "yellow")


def _models(facts: PlanFacts) -> Iterator[RenderableType]:
    if facts.models_error is not None:
        yield _sentence(facts.models_error, "red")
        return
    if not facts.models:
        yield _sentence("no format needs an encoder", "dim")
        return
    table = _table("", "from", "", left=3)
    table.show_header = False
    table.columns[1].overflow = "ellipsis"
    for model in facts.models:
        what = "nothing to fetch, it is here"
        if model.download:
            what = f"{bytes_text(model.download)} to fetch, access granted"
        elif model.kind == "local":
            what = "local"
        table.add_row(encoder_name(model.role).upper(), model.reference, what)
    yield table


def _warnings(warnings: Sequence[PlanWarning]) -> Iterator[RenderableType]:
    if not warnings:
        yield Text("none", style="green")
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold yellow", no_wrap=True)
    table.add_column()
    for warning in warnings:
        words = Text(f"{warning.title}: ", style="bold")
        words.append(in_one_line(warning.message), style="not bold")
        table.add_row(warning.code, words)
    yield table
    yield Text("docs/warnings.md explains each number.", style="dim")
