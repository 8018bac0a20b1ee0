"""The stored pictures of a shard's members: out of an older shard, else from the source."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from diffprep_assets.encode_latents.pixels import planned_picture
from diffprep_assets.encoded_shard import reject_row, sample_fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.shard.stored_members import StoredMembers
from diffprep_assets.shard_plan.members import Member
from diffprep_assets.shard_plan.plan import PlannedSample
from diffprep_resources.errors import SampleReject
from diffprep_resources.pictures.decode import PictureLimits
from diffprep_resources.pictures.stored import StoredForm
from diffprep_resources.sources.base import Source


@dataclass(frozen=True, slots=True)
class PictureSpec:
    """How the pictures of `stage` are read and stored; `member` names them within a sample."""

    stage: str
    member: str
    source: Source
    form: StoredForm
    limits: PictureLimits
    background: str

    def fingerprint(self, planned: PlannedSample) -> str:
        """What decides the bytes of one stored picture."""
        sample, form = planned.sample, self.form
        settings: dict[str, Any] = {"background": self.background, "format": form.image_format}
        if form.image_format != "png":
            settings["quality"] = form.quality
        bucket = sample.bucket
        inputs = [sample.image_digest, bucket.width, bucket.height, sample.crop]
        return sample_fingerprint(self.stage, settings=settings, inputs=inputs)


class MemberPictures:
    """The pictures of a shard's members, by one; `made` counts those that were read and stored
    anew. With `retry_rejects`, a picture whose reject may have been passing is tried again."""

    def __init__(
        self,
        layout: Layout,
        spec: PictureSpec,
        *,
        shard: str,
        members: Sequence[Member],
        retry_rejects: bool,
    ) -> None:
        self._spec = spec
        self._retry = retry_rejects
        self._last: tuple[str, bytes] = ("", b"")
        self.made = 0
        self._known = StoredMembers(
            layout,
            stage=spec.stage,
            shards=[shard, *(former for member in members for former in member.planned.former)],
            wanted=[spec.fingerprint(member.planned) for member in members],
        )

    def of(self, member: Member) -> bytes | dict[str, Any]:
        """The picture's bytes, or the reject where it cannot be stored."""
        fingerprint = self._spec.fingerprint(member.planned)
        reject = self._known.reject(fingerprint)
        if reject is not None and not (self._retry and reject["transient"]):
            return reject
        known = self._known.find(fingerprint)
        if known is not None:
            return known[self._spec.member]
        # A picture with several captions is several samples, one after the other.
        if fingerprint != self._last[0]:
            try:
                self._last = (fingerprint, self._from_source(member))
            except SampleReject as error:
                return reject_row(self._spec.stage, member, error, fingerprint=fingerprint)
        self.made += 1
        return self._last[1]

    def _from_source(self, member: Member) -> bytes:
        spec = self._spec
        return planned_picture(
            spec.source.read_image(member.location),
            sample=member.planned.sample,
            form=spec.form,
            limits=spec.limits,
            background=spec.background,
        )
