"""What curation says of a plan's samples, and who of those that `bucket` kept is in no shard."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq

from diffprep_assets.curate.table import Verdict, iter_verdicts
from diffprep_assets.layout import Layout
from diffprep_assets.plan_report.facts import VerdictFacts
from diffprep_assets.shard_plan.skipped import skipped_keys
from diffprep_resources.storage.parquet_tables import has_table


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Samples that `bucket` kept and that are rejects all the same, of curation, of the splits or
    of a shard's stages: their source keys by part (None where the part is not known), and how many
    are members of each shard."""

    keys: Mapping[str | None, frozenset[str]] = field(default_factory=dict)
    members: Mapping[str, int] = field(default_factory=dict)

    def of_part(self, part: str) -> frozenset[str]:
        """The source keys that may be in the part's table."""
        nobody: frozenset[str] = frozenset()
        return self.keys.get(part, nobody) | self.keys.get(None, nobody)


def left_out(rejects: Path) -> LeftOut:
    """Who is left out after `bucket`, by the view of rejects."""
    if not has_table(rejects):
        return LeftOut()
    names = ("part", "source_key", "shard")
    later = pc.field("stage") != "bucket"
    table = pq.read_table(rejects, columns=list(names), filters=later)
    keys: dict[str | None, set[str]] = {}
    members: Counter[str] = Counter()
    for part, key, shard in zip(*(table.column(name).to_pylist() for name in names), strict=True):
        keys.setdefault(part, set()).add(key)
        if shard is not None:
            members[shard] += 1
    return LeftOut({part: frozenset(found) for part, found in keys.items()}, members)


def verdict_facts(layout: Layout, *, named: int) -> tuple[VerdictFacts, ...]:
    """The verdicts against samples by rule and code, most first, the first `named` of each."""
    if not has_table(layout.curate):
        return ()
    skipped = skipped_keys(layout.shard_plan)
    found: dict[tuple[str, str], list[Verdict]] = {}
    counts: Counter[tuple[str, str]] = Counter()
    stay: Counter[tuple[str, str]] = Counter()
    for verdict in iter_verdicts(layout.curate):
        if verdict.keep:
            continue
        why = (verdict.rule or "", verdict.code or "")
        counts[why] += 1
        stay[why] += verdict.source_key in skipped
        first = found.setdefault(why, [])
        if len(first) < named:
            first.append(verdict)
    return tuple(
        VerdictFacts(
            *why,
            samples=count,
            left_out=count - stay[why],
            skipped=stay[why],
            first=tuple(
                {"source_key": verdict.source_key, "message": verdict.message or ""}
                for verdict in found[why]
            ),
        )
        for why, count in counts.most_common()
    )
