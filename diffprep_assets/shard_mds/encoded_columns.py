"""The columns of an MDS sample that the encode stages made, read back row by row."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from diffprep_assets.encode_latents.worker import picture_fingerprint
from diffprep_assets.encode_text.worker import caption_fingerprint
from diffprep_assets.encoded_rows import EncodedRows, encoded_rows
from diffprep_assets.layout import Layout
from diffprep_assets.shard.worker import marked_bad, not_encoded
from diffprep_assets.shard_mds.columns import picture_columns, text_columns
from diffprep_assets.shard_plan.members import Member
from diffprep_resources.encoders.base import EncoderFamily, TokenCounter


@dataclass(frozen=True, slots=True)
class EncodedSettings:
    """What decides rows of latents and of text, each None where a dataset has no such column."""

    latents: dict[str, Any] | None
    text: dict[str, Any] | None


@dataclass(slots=True)
class EncodedColumns:
    """`img_latent`, `latent_caption_*` and the mask, of one member after the other."""

    layout: Layout
    settings: EncodedSettings
    tokens: TokenCounter | None
    latents: EncodedRows | None = None
    text: EncodedRows | None = None

    def of(self, member: Member) -> dict[str, Any]:
        """The columns by name. Raises StageInputError for a row that is missing or damaged."""
        columns: dict[str, Any] = {}
        if self.latents is not None and self.settings.latents is not None:
            fingerprint = picture_fingerprint(member.planned, self.settings.latents)
            row = self._row(self.latents, fingerprint, member, "encode_latents")
            columns |= picture_columns(row)
        if self.text is not None and self.settings.text is not None and self.tokens is not None:
            fingerprint = caption_fingerprint(member.planned, self.settings.text)
            row = self._row(self.text, fingerprint, member, "encode_text")
            tokens = self.tokens.token_counts([member.caption])["t5"][0]
            columns |= text_columns(row, tokens=tokens)
        return columns

    def _row(
        self, rows: EncodedRows, fingerprint: str, member: Member, stage: str
    ) -> dict[str, Any]:
        tensors = rows.find(fingerprint)
        if tensors is not None:
            return tensors
        if rows.is_damaged(fingerprint):
            raise marked_bad(self.layout, member)
        raise not_encoded(self.layout, member, stage)


@contextmanager
def encoded_columns(
    layout: Layout,
    settings: EncodedSettings,
    *,
    shard: str,
    members: Sequence[Member],
    tokens: TokenCounter | None,
) -> Iterator[EncodedColumns]:
    """The encoded columns of a shard's members, to be read within the block."""
    columns = EncodedColumns(layout, settings, tokens)
    with ExitStack() as stack:
        if settings.latents is not None:
            wanted = [picture_fingerprint(member.planned, settings.latents) for member in members]
            rows = encoded_rows(layout, "encode_latents", shards=[shard], wanted=wanted)
            columns.latents = stack.enter_context(rows)
        if settings.text is not None:
            wanted = [caption_fingerprint(member.planned, settings.text) for member in members]
            rows = encoded_rows(layout, "encode_text", shards=[shard], wanted=wanted)
            columns.text = stack.enter_context(rows)
        yield columns


def token_counter(settings: EncodedSettings, encoders: EncoderFamily | None) -> TokenCounter | None:
    """What counts a caption's tokens for its mask; None where no mask is stored."""
    return encoders.token_counter() if settings.text is not None and encoders else None
