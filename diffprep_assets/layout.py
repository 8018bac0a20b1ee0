"""Every path of a dataset, on the storage root and in its output folder."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one dataset lives. `root` holds the work, `output_dir` what the trainer reads."""

    root: Path
    dataset: str
    output_dir: Path

    @property
    def folder(self) -> Path:
        return self.root / self.dataset

    # -- the work ---------------------------------------------------------------------------
    @property
    def owner(self) -> Path:
        """Which recipe and output folder this dataset's folder belongs to."""
        return self.folder / "owner.json"

    @property
    def source_index(self) -> Path:
        return self.folder / "source_index.parquet"

    def download(self, part: str) -> Path:
        """The part's file stamps."""
        return self.folder / "download" / f"{part}.parquet"

    def downloaded_files(self, part: str) -> Path:
        """Folder of the part's fetched bytes; only remote sources have one."""
        return self.folder / "download" / part

    def bucket(self, part: str) -> Path:
        return self.folder / "bucket" / f"{part}.parquet"

    @property
    def shard_plan(self) -> Path:
        """One row per sample that ever was planned."""
        return self.folder / "shard_plan.parquet"

    @property
    def shards(self) -> Path:
        """One row per shard of the plan, with the digests that decide its freshness."""
        return self.folder / "shards.parquet"

    def latents(self, shard: str) -> Path:
        return self.folder / "latents" / f"{shard}.safetensors"

    def text(self, shard: str) -> Path:
        return self.folder / "text" / f"{shard}.safetensors"

    @property
    def empty_encodings(self) -> Path:
        """The encoding of the empty caption, beside the fingerprint that it was made with."""
        return self.folder / "text" / "empty.safetensors"

    def shard_tar(self, shard: str) -> Path:
        return self.folder / "shards" / f"{shard}.tar"

    def shard_samples(self, shard: str) -> Path:
        """One row per sample of the tar: offsets, digest, fingerprints."""
        return self.folder / "shards" / f"{shard}.parquet"

    def shard_record(self, shard: str) -> Path:
        """Fingerprint, size, digest, counts, rejects: it makes the shard whole."""
        return self.folder / "shards" / f"{shard}.json"

    def shard_next_samples(self, shard: str) -> Path:
        """The rows of a tar that is about to take its place."""
        return self.folder / "shards" / f"{shard}.next.parquet"

    def shard_next_record(self, shard: str) -> Path:
        """The record of a tar that is about to take its place; see shard/commit.py."""
        return self.folder / "shards" / f"{shard}.next.json"

    def shard_bad(self, shard: str) -> Path:
        return self.folder / "shards" / f"{shard}.bad"

    @property
    def rejects(self) -> Path:
        return self.folder / "rejects.parquet"

    @property
    def prepared(self) -> Path:
        """What was last published whole: the fingerprint of energon_prepare."""
        return self.folder / "prepared.json"

    @property
    def validation(self) -> Path:
        """What the last passed validation covered."""
        return self.folder / "validation.json"

    @property
    def last_failure(self) -> Path:
        """The stage that failed last, until it ends well."""
        return self.folder / "last_failure.json"

    @property
    def locks(self) -> Path:
        return self.folder / ".locks"

    def partition_lock(self, stage: str, key: str) -> Path:
        """Held while one partition of one stage is made: a backfill may be several runs."""
        return self.locks / f"{stage}-{key}.lock"

    def step_lock(self, stage: str, run_id: str) -> Path:
        """Held by a step while it lives: a file that is left and not held is a dead one's."""
        return self.locks / f"step-{stage}-{run_id}.lock"

    @property
    def run_lock(self) -> Path:
        """Held by `diffprep run` and the `<dataset>_make` job."""
        return self.locks / "run.lock"

    @property
    def dataset_lock(self) -> Path:
        """Held alone by whole stages, shared by the stages of parts and shards."""
        return self.locks / "dataset.lock"

    @property
    def model_digests(self) -> Path:
        """Digests of local weight files, by path, size and mtime; shared by all datasets."""
        return self.root / ".model_digests.json"

    def files_of(self, stage: str) -> Path:
        """The file or the folder that a stage writes."""
        folders = {
            "download": self.download("x").parent,
            "bucket": self.bucket("x").parent,
            "encode_latents": self.latents("x").parent,
            "encode_text": self.text("x").parent,
            "shard": self.shard_tar("x").parent,
        }
        whole = {
            "source_index": self.source_index,
            "energon_prepare": self.output_dir,
            "validate": self.validation,
        }
        # The plan is of two assets.
        return (folders | whole).get(stage, self.shard_plan)

    # -- what the trainer reads -------------------------------------------------------------
    @property
    def dataset_json(self) -> Path:
        return self.output_dir / "dataset.json"

    @property
    def card(self) -> Path:
        return self.output_dir / "README.md"

    @property
    def card_pictures(self) -> Path:
        """The sample pictures that the card shows."""
        return self.output_dir / "samples.jpg"

    @property
    def published_empty_encodings(self) -> Path:
        return self.output_dir / "empty_encodings"

    @property
    def nv_meta(self) -> Path:
        return self.output_dir / ".nv-meta"
