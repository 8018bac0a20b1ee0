"""One dataset: its recipe with everything that the stages derive from it."""

import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from diffprep_assets.encode_rejects import encode_rejects
from diffprep_assets.freshness import digest_of, fingerprint
from diffprep_assets.layout import Layout
from diffprep_assets.recipe.folders import is_remote, overlap
from diffprep_assets.recipe.formats import (
    Format,
    encode_stages,
    first_format,
    needs_latents,
    needs_text,
)
from diffprep_assets.recipe.load import LoadedRecipe
from diffprep_assets.recipe.schema import Recipe
from diffprep_assets.recipe.stage_fields import (
    clip_fields,
    energon_video_fields,
    fastvideo_fields,
    first_frame_fields,
    format_field,
    generation_fields,
    latents_fields,
    mds_fields,
    plan_fields,
    raw_fields,
    shard_sizes,
    split_key,
    text_fields,
)
from diffprep_assets.shard_plan.plan import PlannedShard, PlanSettings
from diffprep_assets.source_index.catalog import IndexCatalog
from diffprep_resources.encoders.base import EncoderFamily, EncoderSettings, ModelIdentity
from diffprep_resources.encoders.families import family_for
from diffprep_resources.errors import SettingError
from diffprep_resources.hub.access import HubAccess
from diffprep_resources.hub.datasets import hub_dataset
from diffprep_resources.hub.models import ModelHub
from diffprep_resources.sources.base import Source
from diffprep_resources.sources.caption_files import caption_suffixes
from diffprep_resources.sources.directory import DirectorySource
from diffprep_resources.sources.fields import FieldKeys, field_keys
from diffprep_resources.sources.hub_folder import ClipFolderSource, HubFolderSource
from diffprep_resources.sources.hub_layout import HubChoice
from diffprep_resources.sources.remote import RemoteSource
from diffprep_resources.sources.remote_store import RemoteStore
from diffprep_resources.sources.shapes import FolderShape, HubShape, Shape, TarShape
from diffprep_resources.sources.stores import folder_store, pattern_store
from diffprep_resources.sources.webdataset import WebDatasetSource
from diffprep_resources.storage.atomic import write_bytes


@dataclass(frozen=True)
class Dataset:
    """A loaded recipe at work under a storage root. Cheap to make: models are looked at lazily.

    Without `needs_encoders`, what comes before encoding goes on where an encoder is missing.
    """

    loaded: LoadedRecipe
    storage_root: Path
    needs_encoders: bool = True

    @property
    def name(self) -> str:
        return self.loaded.name

    @property
    def recipe(self) -> Recipe:
        return self.loaded.recipe

    @cached_property
    def layout(self) -> Layout:
        """The layout of the recipe's first format; `layout.of` gives the others'."""
        return Layout(
            self.storage_root, self.name, self.loaded.output_dir, first_format(self.recipe)
        )

    @property
    def field_keys(self) -> FieldKeys:
        """Which fields of the source hold picture and caption."""
        fields = self.recipe.data_format
        return field_keys(
            image_key=fields.image_key,
            caption_key=fields.caption_key,
            image_keys=fields.image_keys,
            caption_keys=fields.caption_keys,
            media="clips" if self.recipe.video else "pictures",
        )

    @cached_property
    def source(self) -> Source:
        """The reader of the recipe's source."""
        source, keys = self.recipe.source, self.field_keys
        if source.type == "directory":
            folder = self.loaded.input_dir or ""
            if not is_remote(folder):
                local = ClipFolderSource if keys.media == "clips" else DirectorySource
                return local(folder, keys=keys)
            shape = FolderShape(folder, caption_suffixes(keys), keys.media)
            return self._remote(folder_store(folder), shape, keys)
        if source.type == "webdataset":
            pattern = self.loaded.input_path or ""
            if not is_remote(pattern):
                return WebDatasetSource(pattern, keys=keys)
            return self._remote(pattern_store(pattern), TarShape(pattern, keys.media), keys)
        choice = HubChoice(source.hf_split, source.hf_name, source.hf_data_files)
        dataset = self.loaded.hf_dataset or ""
        if Path(dataset).is_absolute():
            return HubFolderSource(dataset, choice=choice, keys=keys)
        access = HubAccess(token_file=self.loaded.hf_token_file)
        store = hub_dataset(dataset, revision=source.hf_revision, access=access)
        return self._remote(
            store, HubShape(dataset, choice, caption_suffixes(keys), keys.media), keys
        )

    def _remote(self, store: RemoteStore, shape: Shape, keys: FieldKeys) -> RemoteSource:
        return RemoteSource(store, shape=shape, catalog=IndexCatalog(self.layout), keys=keys)

    @cached_property
    def encoders(self) -> EncoderFamily:
        """The recipe's encoders, found and checked but not loaded. Raises ModelError."""
        model, video = self.recipe.model, self.recipe.video
        settings = EncoderSettings(
            model_path=model.model_path,
            vae_path=model.vae_path,
            t5_path=model.t5_path,
            clip_path=model.clip_path,
            precision=model.precision,
            t5_max_length=model.t5_max_length,
            vae_latent_mode=model.vae_latent_mode,
            seed=model.seed,
            workload=video.workload if video else "t2v",
            caption_cleaning=self.recipe.captions.clean,
            vae_tiling=video.vae_tiling if video else False,
        )
        hub = ModelHub(
            digest_cache=self.layout.model_digests,
            token_file=self.loaded.hf_token_file,
            base_folder=self.loaded.base,
        )
        return family_for(settings, hub=hub)

    def check_encoders(self) -> None:
        """Raises ModelError where an encoder is missing or refused, before any data is fetched."""
        if self.needs_encoders and self._roles:
            _ = self.encoders

    @cached_property
    def identities(self) -> dict[str, ModelIdentity]:
        """Which weights each encoder has that the recipe's formats need, by role."""
        if not self._roles:
            return {}
        found = self.encoders.identities().items()
        return {role: identity for role, identity in found if role in self._roles}

    @property
    def _roles(self) -> tuple[str, ...]:
        """The encoders whose output some format holds."""
        video = self.recipe.video
        if video is not None:
            # Of an image-to-video model `clip` is the image encoder, where it has one.
            return ("vae", "t5", "clip") if video.workload == "i2v" else ("vae", "t5")
        vae = ("vae",) if needs_latents(self.recipe) else ()
        return (*vae, "t5", "clip") if needs_text(self.recipe) else vae

    @cached_property
    def latents_settings(self) -> dict[str, Any]:
        return latents_fields(self.recipe, self._models)

    @cached_property
    def text_settings(self) -> dict[str, Any]:
        return text_fields(self.recipe, self._models)

    @cached_property
    def first_frame_settings(self) -> dict[str, Any]:
        return first_frame_fields(self.recipe, self._models)

    @cached_property
    def clip_settings(self) -> dict[str, Any]:
        return clip_fields(self._models)

    @property
    def raw_settings(self) -> dict[str, Any]:
        return raw_fields(self.recipe)

    @property
    def mds_settings(self) -> dict[str, Any]:
        return mds_fields(self.recipe)

    def encode_settings(self, stage: str) -> dict[str, Any]:
        """What an encode stage reads of the recipe and the models."""
        own = {
            "encode_latents": lambda: self.latents_settings,
            "encode_text": lambda: self.text_settings,
            "encode_first_frame": lambda: self.first_frame_settings,
            "encode_clip": lambda: self.clip_settings,
        }
        return own[stage]()

    def settings_of(self, stage: str) -> dict[str, Any]:
        """What a stage of finished shards reads of the recipe."""
        if stage == "shard" and self.recipe.video is not None:
            return fastvideo_fields(self.recipe)
        if stage == "shard_energon_video":
            return energon_video_fields(self.recipe)
        own = {"shard_raw": self.raw_settings, "shard_mds": self.mds_settings}
        return own.get(stage) or format_field(stage)

    @property
    def plan_settings(self) -> PlanSettings:
        shares = self.recipe.output.shares
        return PlanSettings(
            generation_key=json.dumps(generation_fields(self.recipe), sort_keys=True),
            shard_size={int(tier): size for tier, size in shard_sizes(self.recipe).items()},
            shuffle_seed=self.recipe.output.shuffle_seed,
            shares={"train": shares.train, "val": shares.val, "test": shares.test},
            split_seed=self.recipe.output.split_seed,
            split_key=split_key(self.plan_fields),
            resplit=self.recipe.output.resplit,
        )

    @property
    def plan_fields(self) -> dict[str, Any]:
        return plan_fields(self.recipe)

    def latents_fingerprint(self, shard: PlannedShard) -> str:
        inputs = {"pictures": shard.pictures_digest}
        return fingerprint("encode_latents", settings=self.latents_settings, inputs=inputs)

    def text_fingerprint(self, shard: PlannedShard) -> str:
        inputs = {"captions": shard.captions_digest}
        return fingerprint("encode_text", settings=self.text_settings, inputs=inputs)

    def shard_fingerprint(self, shard: PlannedShard) -> str:
        inputs = {
            "encode_latents": self.latents_fingerprint(shard),
            "encode_text": self.text_fingerprint(shard),
            "shard_members": shard.members_digest,
        }
        return fingerprint("shard", settings={}, inputs=inputs)

    def raw_fingerprint(self, shard: PlannedShard) -> str:
        """Covers pictures, captions and members, and whom encoding left out."""
        inputs = self._stored_inputs(shard)
        return fingerprint("shard_raw", settings=self.raw_settings, inputs=inputs)

    def mds_fingerprint(self, shard: PlannedShard) -> str:
        """As that of raw, with the encoded rows and caption columns that the recipe asks for."""
        inputs = {**self._stored_inputs(shard), "columns": shard.columns_digest}
        if self.recipe.mds.latents:
            inputs["encode_latents"] = self.latents_fingerprint(shard)
        if self.recipe.mds.text_latents:
            inputs["encode_text"] = self.text_fingerprint(shard)
        return fingerprint("shard_mds", settings=self.mds_settings, inputs=inputs)

    def first_frame_fingerprint(self, shard: PlannedShard) -> str:
        inputs = {"pictures": shard.pictures_digest}
        return fingerprint("encode_first_frame", settings=self.first_frame_settings, inputs=inputs)

    def clip_fingerprint(self, shard: PlannedShard) -> str:
        inputs = {"pictures": shard.pictures_digest}
        return fingerprint("encode_clip", settings=self.clip_settings, inputs=inputs)

    def fastvideo_fingerprint(self, shard: PlannedShard) -> str:
        """Covers the rows of every encode stage. A skipped row stays in the shard; it is left out
        when that is published."""
        inputs = {**self.encode_fingerprints(shard), "shard_members": shard.members_digest}
        return fingerprint("shard", settings=self.settings_of("shard"), inputs=inputs)

    def energon_video_fingerprint(self, shard: PlannedShard) -> str:
        stage = "shard_energon_video"
        inputs = {**self.encode_fingerprints(shard), "shard_members": shard.members_digest}
        return fingerprint(stage, settings=self.settings_of(stage), inputs=inputs)

    def encode_fingerprints(self, shard: PlannedShard) -> dict[str, str]:
        """What the shard's rows must carry at each encode stage that the recipe has."""
        of = {
            "encode_latents": self.latents_fingerprint,
            "encode_text": self.text_fingerprint,
            "encode_first_frame": self.first_frame_fingerprint,
            "encode_clip": self.clip_fingerprint,
        }
        return {stage: of[stage](shard) for stage in encode_stages(self.recipe)}

    def _stored_inputs(self, shard: PlannedShard) -> dict[str, str]:
        made = self.encode_fingerprints(shard)
        left_out = sorted(
            {reject["sample_id"] for reject in encode_rejects(self.layout, shard.shard, made)}
        )
        return {
            "pictures": shard.pictures_digest,
            "captions": shard.captions_digest,
            "shard_members": shard.members_digest,
            "left_out": digest_of(left_out) if left_out else "",
        }

    def format_fingerprint(self, shard: PlannedShard, format: Format) -> str:
        """The fingerprint of the finished shard in a format."""
        return {
            "energon": self.shard_fingerprint,
            "raw": self.raw_fingerprint,
            "mds": self.mds_fingerprint,
            "fastvideo": self.fastvideo_fingerprint,
            "energon_video": self.energon_video_fingerprint,
        }[format](shard)

    @property
    def empty_text_fingerprint(self) -> str:
        """Fingerprint of the empty caption's encoding."""
        return fingerprint("encode_text", settings=self.text_settings, inputs={"captions": ""})

    def claim(self) -> None:
        """Make the storage folder this recipe's. Raises SettingError when it is another's.

        An output folder that was moved, so that the one on record is gone, stays the dataset's.
        """
        lies = overlap(self.layout.output_dir, self.layout.folder)
        if lies is not None:
            raise SettingError(
                f"{self.loaded.path}: output.output_dir ({self.layout.output_dir}) {lies} the "
                f"dataset's work folder ({self.layout.folder}); choose a folder apart from it"
            )
        first = first_format(self.recipe)
        owner = {"recipe": self.name, "output_dir": str(self.layout.output_dir), "format": first}
        if self.layout.owner.exists():
            found = {"format": "energon", **json.loads(self.layout.owner.read_text())}
            if found["recipe"] == self.name and found["format"] != first:
                raise SettingError(
                    f"{self.loaded.path}: output.formats begins with {first}, but "
                    f"{found['output_dir']} holds this dataset as {found['format']}: the first "
                    f"format cannot change. List {found['format']} first, or give the dataset "
                    f"another recipe name and output_dir"
                )
            if found == owner:
                return
            if found["recipe"] != self.name or Path(found["output_dir"]).exists():
                raise SettingError(
                    f"{self.layout.folder} belongs to recipe {found['recipe']} with output_dir "
                    f"{found['output_dir']}; this is recipe {self.name} with output_dir "
                    f"{owner['output_dir']}. Give this dataset a recipe name of its own, or move "
                    f"{found['output_dir']} to the new place"
                )
        write_bytes(self.layout.owner, json.dumps(owner, indent=2, sort_keys=True).encode())

    @cached_property
    def _models(self) -> dict[str, str]:
        return {role: identity.fingerprint for role, identity in self.identities.items()}
