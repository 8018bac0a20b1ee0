"""How long captions are in each text encoder's tokens, and which length would do."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from diffprep_assets.plan_report.facts import LengthChoice, TokenFacts

if TYPE_CHECKING:
    from diffprep_resources.encoders.base import TokenCounter

COUNTED_AT_ONCE = 500
CUT_AT_MOST = 0.01
"""Fewer captions than this share are cut off by a length that is called good enough."""
ROUND_LENGTHS = (
    *(16, 24, 32, 48, 64, 96, 128, 160, 192, 224, 256, 320, 384, 448, 512),
    *(640, 768, 1024, 1536, 2048),
)


def token_lengths(
    captions: Sequence[str], counter: "TokenCounter", *, report: Callable[[int], None]
) -> dict[str, np.ndarray]:
    """By encoder, int64 [captions]; `report` is told how many more are counted."""
    lengths: dict[str, list[int]] = {role: [] for role in counter.token_limits}
    for start in range(0, len(captions), COUNTED_AT_ONCE):
        some = captions[start : start + COUNTED_AT_ONCE]
        for role, counts in counter.token_counts(some).items():
            lengths[role] += counts
        report(len(some))
    return {role: np.array(counts, np.int64) for role, counts in lengths.items()}


def token_facts(
    lengths: Mapping[str, np.ndarray], limits: Mapping[str, int]
) -> dict[str, TokenFacts]:
    """Percentiles are lengths of real captions: the nearest one above."""
    return {role: _facts(of_role, limits[role]) for role, of_role in lengths.items()}


def _facts(lengths: np.ndarray, limit: int) -> TokenFacts:
    if not len(lengths):
        return TokenFacts(limit, 0, 0, 0, 0, 0, 0.0)
    median, p95, p99 = np.percentile(lengths, [50, 95, 99], method="inverted_cdf").tolist()
    truncated = int((lengths > limit).sum())
    return TokenFacts(
        limit=limit,
        median=median,
        p95=p95,
        p99=p99,
        longest=int(lengths.max()),
        truncated=truncated,
        truncated_share=truncated / len(lengths),
    )


def better_length(
    lengths: np.ndarray, *, limit: int, samples: int, bytes_per_token: int
) -> LengthChoice | None:
    """The smallest round length that cuts off fewer than 1% of the captions; None where the limit
    is that already, or where even the longest round one cuts off more."""
    if not len(lengths):
        return None
    for length in ROUND_LENGTHS:
        share = float((lengths > length).mean())
        if share >= CUT_AT_MOST:
            continue
        cut_now = float((lengths > limit).mean())
        if length == limit or (length > limit and cut_now < CUT_AT_MOST):
            return None
        return LengthChoice(length, share, (limit - length) * bytes_per_token * samples)
    return None
