"""A shard's members with what every encode stage made of them."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from diffprep_assets.encoded_rows import EncodedRows, encoded_rows
from diffprep_assets.layout import Layout
from diffprep_assets.row_fingerprint import row_fingerprint
from diffprep_assets.shard.worker import marked_bad, not_encoded
from diffprep_assets.shard_plan.members import Member, members_of_shard

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class EncodedMember:
    """A member, and the fingerprints that its rows must carry, by encode stage."""

    member: Member
    fingerprints: Mapping[str, str]


class EncodedMembers:
    """The members of one shard, to be read within the block of `encoded_members`."""

    def __init__(
        self,
        layout: Layout,
        members: Sequence[EncodedMember],
        sources: Mapping[str, EncodedRows],
    ) -> None:
        self.members = members
        self._layout = layout
        self._sources = sources

    def reject(self, encoded: EncodedMember) -> dict[str, Any] | None:
        """The first stage's reject of the member."""
        found = (
            source.reject(encoded.fingerprints[stage]) for stage, source in self._sources.items()
        )
        return next((reject for reject in found if reject is not None), None)

    def tensors(self, encoded: EncodedMember, stage: str) -> "dict[str, torch.Tensor]":
        """The member's row of one stage. Raises StageInputError where it is missing or damaged."""
        fingerprint, source = encoded.fingerprints[stage], self._sources[stage]
        found = source.find(fingerprint)
        if found is not None:
            return found
        if source.is_damaged(fingerprint):
            raise marked_bad(self._layout, encoded.member, format="fastvideo")
        raise not_encoded(self._layout, encoded.member, stage)


@contextmanager
def encoded_members(
    layout: Layout, shard: str, *, settings: Mapping[str, dict[str, Any]]
) -> Iterator[EncodedMembers]:
    """The shard's members by sample_id, with their rows; `settings` are those of each encode
    stage that the recipe has."""
    members = [
        EncodedMember(
            member,
            {stage: row_fingerprint(stage, member.planned, s) for stage, s in settings.items()},
        )
        for member in members_of_shard(layout, shard)
    ]
    with ExitStack() as stack:
        sources = {}
        for stage in settings:
            wanted = {encoded.fingerprints[stage] for encoded in members}
            rows = encoded_rows(layout, stage, shards=[shard], wanted=wanted)
            sources[stage] = stack.enter_context(rows)
        yield EncodedMembers(layout, members, sources)
