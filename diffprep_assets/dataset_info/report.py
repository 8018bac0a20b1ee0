"""The facts of a dataset for people, and as one JSON object."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import Any

from rich.markup import escape
from rich.table import Table

from diffprep_assets.dataset_info.facts import DatasetInfo, buckets, split_shares
from diffprep_assets.quantities import bytes_text, share_text
from diffprep_assets.run_report import in_one_line
from diffprep_assets.shard.truncation import truncations_of_json

STYLES = {"valid": "green", "changed": "yellow", "unknown": "yellow"}
SPLITS = ("train", "val", "test")
PLACES = ("input_dir", "hf_dataset", "input_path")


def info_json(info: DatasetInfo) -> dict[str, Any]:
    """The object that `info --json` prints."""
    content = info.provenance
    counts = content["counts"] if content else {}
    shares = split_shares(info)
    return {
        "path": str(info.path),
        "dataset": content["dataset"] if content else None,
        "kind": info.kind,
        "encoding": info.encoding,
        "validity": asdict(info.validity),
        "samples": info.samples,
        "shards": info.shards,
        "size_bytes": info.size_bytes,
        "bytes_per_sample": _per_sample(info),
        "splits": {
            split: {"samples": count, "share": shares[split]}
            for split, count in info.splits.items()
        },
        "excluded": info.excluded,
        "skipped": counts.get("skipped"),
        "served": counts.get("served"),
        "buckets": buckets(info),
        "members": {
            member.name: {
                "content": member.content,
                "shape": None if member.shape is None else list(member.shape),
                "dtype": member.dtype,
                "bytes_per_sample": round(member.bytes_per_sample, 1),
            }
            for member in info.members
        },
        "caption_bytes": None if info.captions is None else asdict(info.captions),
        "truncated": counts.get("truncated"),
        "listed": counts.get("listed"),
        "rejects": counts.get("rejects"),
        "provenance": _provenance(content) if content else None,
        "problems": list(info.problems),
        "other_outputs": content.get("other_outputs", []) if content else [],
        "load": info.loading,
    }


def info_lines(info: DatasetInfo) -> Iterator[Table | str]:
    """A screen of it."""
    content = info.provenance
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(style="bold", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, words in _facts(info):
        grid.add_row(name, words)
    if content:
        for name, words in _made_with(content):
            grid.add_row(name, escape(words))
    yield grid
    yield ""
    yield _members_table(info)
    if found := buckets(info):
        yield ""
        yield _buckets_table(found)
    if info.problems:
        yield "\n[bold red]Problems[/]"
        yield from (f"  {escape(in_one_line(problem))}" for problem in info.problems)
    yield "\n[bold]Load it[/]"
    yield from (f"  {escape(line)}" for line in info.loading.rstrip().splitlines())


def _facts(info: DatasetInfo) -> Iterator[tuple[str, str]]:
    content = info.provenance
    maker = f"diffprep {content['versions'].get('diffprep', '')}" if content else "another tool"
    name = f"{content['dataset']}, by {maker}" if content else f"by {maker}, {info.kind}"
    yield "dataset", escape(name)
    yield "path", escape(str(info.path))
    yield "valid", f"[{STYLES[info.validity.state]}]{escape(info.validity.words)}[/]"
    what = "shards" if info.encoding in ("mds", "fastvideo") else "tars"
    size = f"{info.shards:,} {what}, {bytes_text(info.size_bytes)}"
    if info.samples is None:
        yield "samples", f"not counted (no .nv-meta); {size}"
    else:
        per = _per_sample(info)
        each = f", {bytes_text(per)} a sample" if per else ""
        yield "samples", f"{info.samples:,} in {size}{each}"
    shares = split_shares(info)
    splits = [f"{name} {n:,} ({share_text(shares[name])})" for name, n in info.splits.items()]
    if splits:
        yield "splits", escape(", ".join(splits))
    if info.excluded:
        yield "excluded", f"{info.excluded:,} names in split.yaml"
    if info.captions is not None:
        lengths = info.captions
        yield (
            "captions",
            f"{lengths.captions:,}; bytes: median {lengths.median:,}, 95th percentile "
            f"{lengths.p95:,}, longest {lengths.longest:,}",
        )


def _made_with(content: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """What dataset.json tells, a line each."""
    counts, recipe = content["counts"], content["recipe"]
    if counts.get("skipped"):
        rules = ", ".join(f"{rule} {count:,}" for rule, count in counts["skips"].items())
        yield "skipped", f"{counts['skipped']:,} ({rules}): {counts['served']:,} are served"
    for other in content.get("other_outputs", []):
        kept_up = "" if other["is_kept_up"] else ", which the recipe does not list any more"
        yield "other output", f"{other['format']}, in {other['place']}{kept_up}"
    for item in truncations_of_json(counts["truncated"]):
        if item.truncated:
            yield "cut short", item.sentence
    rejects = sorted(counts["rejects"].items(), key=lambda entry: (-entry[1], entry[0]))
    named = ", ".join(f"{code} {count:,}" for code, count in rejects)
    share = share_text(counts["rejected"] / counts["listed"]) if counts["listed"] else "0%"
    yield (
        "rejects",
        f"{counts['rejected']:,} of {counts['listed']:,} ({share}): {named}"
        if (named)
        else f"none of {counts['listed']:,}",
    )
    source = recipe["source"]
    revision = content["source"]["revision"]
    place = next((str(source[key]) for key in PLACES if source.get(key)), "")
    yield "source", f"{source['type']} {place}" + (f" at {revision}" if revision else "")
    for role, model in sorted(content["models"].items()):
        weights = model["weights"]
        where = "/".join(part for part in (weights["reference"], weights["subfolder"]) if part)
        yield role, f"{where} at {weights['revision']}"
    yield "recipe", f"hash {content['recipe_hash']}, generation {content['generation']}"
    versions = content["versions"]
    known = [
        f"{name} {versions[name]}"
        for name in ("diffprep", "torch", "diffusers")
        if name in versions
    ]
    yield "versions", ", ".join(known)


def _provenance(content: Mapping[str, Any]) -> dict[str, Any]:
    keys = ("recipe", "recipe_hash", "generation", "source", "models", "versions")
    return {key: content[key] for key in keys}


def _members_table(info: DatasetInfo) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("member", no_wrap=True)
    table.add_column("a sample", justify="right", no_wrap=True)
    table.add_column("the first sample's", overflow="fold")
    for member in info.members:
        size = bytes_text(member.bytes_per_sample)
        table.add_row(escape(member.name), size, escape(in_one_line(member.content)))
    return table


def _buckets_table(found: list[dict[str, int]]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="bold")
    table.add_column("bucket", no_wrap=True)
    names = ("samples", "shards", *SPLITS)
    for name in (*names, "bytes"):
        table.add_column(name, justify="right", no_wrap=True)
    for bucket in found:
        frames = bucket.get("num_frames")
        size = f"{bucket['width']} x {bucket['height']}" + (f" x {frames}" if frames else "")
        counts = (f"{bucket[name]:,}" if bucket[name] else "" for name in names)
        table.add_row(size, *counts, bytes_text(bucket["size_bytes"]))
    return table


def _per_sample(info: DatasetInfo) -> float | None:
    return round(info.size_bytes / info.samples, 1) if info.samples else None
