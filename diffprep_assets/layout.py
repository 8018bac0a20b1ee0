"""Every path of a dataset, on the storage root and in its output folders."""

from dataclasses import dataclass, replace
from pathlib import Path

from diffprep_assets.recipe.formats import OF_CLIPS, PREPARE_STAGE, SHARD_STAGE, Format


@dataclass(frozen=True, slots=True)
class Layout:
    """Where one dataset lives. `root` holds the work, `output_dir` what the trainer reads.

    A dataset may have several outputs: finished shards, what was published of them, and
    `output_dir` are those of `format`. The recipe's first format lies in its output_dir, `base`,
    every other one in a folder of its name in there. `of` gives the layout of another format.
    """

    root: Path
    dataset: str
    output_dir: Path
    format: Format = "energon"
    first: Format | None = None
    base: Path | None = None

    def of(self, format: Format) -> "Layout":
        """The same dataset's layout in another format."""
        first, base = self.first or self.format, self.base or self.output_dir
        output_dir = base if format == first else base / format
        return replace(self, output_dir=output_dir, format=format, first=first, base=base)

    @property
    def of_rows(self) -> "Layout":
        """That of the format whose finished shards give back every row as it was encoded."""
        of_clips = (self.first or self.format) in OF_CLIPS
        return self.of("fastvideo" if of_clips else "energon")

    @property
    def folder(self) -> Path:
        return self.root / self.dataset

    def _named(self, name: str) -> str:
        """`<name>` of the pre-encoded output, `<name>_<format>` of another."""
        return name if self.format == "energon" else f"{name}_{self.format}"

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

    def source_columns(self, part: str) -> Path:
        """Fields of the source that curation or a format reads."""
        return self.folder / "source_columns" / f"{part}.parquet"

    def picture_hash(self, part: str) -> Path:
        """How each picture looks, in 64 bits."""
        return self.folder / "picture_hash" / f"{part}.parquet"

    @property
    def curate(self) -> Path:
        """The verdicts: who is left out, and who must share a split."""
        return self.folder / "curate.parquet"

    @property
    def skip_lists(self) -> Path:
        """Folder of the lists that `diffprep skip` stored."""
        return self.folder / "skips"

    def skip_list(self, name: str) -> Path:
        """One list that `diffprep skip` stored."""
        return self.skip_lists / f"{name}.parquet"

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

    def first_frame(self, shard: str) -> Path:
        return self.folder / "first_frame" / f"{shard}.safetensors"

    def clip(self, shard: str) -> Path:
        return self.folder / "clip" / f"{shard}.safetensors"

    @property
    def empty_encodings(self) -> Path:
        """The encoding of the empty caption, beside the fingerprint that it was made with."""
        return self.folder / "text" / "empty.safetensors"

    @property
    def shards_folder(self) -> Path:
        """Finished shards of the format, each with its rows and its record."""
        return self.folder / self._named("shards")

    def shard_file(self, shard: str) -> Path:
        """The finished shard: a tar, an MDS shard, or the list of FastVideo's files."""
        suffix = {"mds": "mds", "fastvideo": "files.json"}.get(self.format, "tar")
        return self.shards_folder / f"{shard}.{suffix}"

    def shard_folder(self, shard: str) -> Path:
        """The parquet files of a finished FastVideo shard."""
        return self.shards_folder / shard

    def shard_samples(self, shard: str) -> Path:
        """One row per sample of the shard: offsets, digest, fingerprints."""
        return self.shards_folder / f"{shard}.parquet"

    def shard_record(self, shard: str) -> Path:
        """Fingerprint, size, digest, counts, rejects: it makes the shard whole."""
        return self.shards_folder / f"{shard}.json"

    def shard_next_samples(self, shard: str) -> Path:
        """The rows of a shard that is about to take its place."""
        return self.shards_folder / f"{shard}.next.parquet"

    def shard_next_record(self, shard: str) -> Path:
        """The record of a shard that is about to take its place; see shard/commit.py."""
        return self.shards_folder / f"{shard}.next.json"

    def shard_bad(self, shard: str) -> Path:
        return self.shards_folder / f"{shard}.bad"

    @property
    def rejects(self) -> Path:
        return self.folder / "rejects.parquet"

    @property
    def prepared(self) -> Path:
        """What was last published whole of the format: the fingerprint of its prepare stage."""
        return self.folder / f"{self._named('prepared')}.json"

    @property
    def published_state(self) -> Path:
        """Which files of the output folder are this dataset's."""
        return self.folder / f"{self._named('published')}.json"

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
            "source_columns": self.source_columns("x").parent,
            "picture_hash": self.picture_hash("x").parent,
            "encode_latents": self.latents("x").parent,
            "encode_text": self.text("x").parent,
            "encode_first_frame": self.first_frame("x").parent,
            "encode_clip": self.clip("x").parent,
            **{stage: self.of(format).shards_folder for format, stage in SHARD_STAGE.items()},
        }
        whole = {
            "source_index": self.source_index,
            "curate": self.curate,
            **{stage: self.of(format).output_dir for format, stage in PREPARE_STAGE.items()},
            "validate": self.validation,
        }
        folders["shard"] = self.of_rows.shards_folder
        # The plan is of two assets.
        return (folders | whole).get(stage, self.shard_plan)

    # -- what the trainer reads -------------------------------------------------------------
    @property
    def other_outputs(self) -> tuple[Path, ...]:
        """Where outputs of other formats may lie inside this one's folder."""
        if self.base not in (None, self.output_dir):
            return ()
        return tuple(self.output_dir / name for name in PREPARE_STAGE if name != self.format)

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
    def metadataset(self) -> Path:
        """What blends the buckets' datasets, in layout `per_bucket`."""
        return self.output_dir / "metadataset.yaml"

    @property
    def nv_meta(self) -> Path:
        return self.output_dir / ".nv-meta"
