"""Where the files of each encoder are, and which of them decide its results.

An override is a repository with the usual subfolder, or the bare encoder folder. A tokenizer is
looked for, in this order: in the usual subfolder of the repository that gives the weights; in the
weights' own folder; for a bare local folder, in the usual folder beside it; in `model_path`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from diffprep_resources.encoders.base import (
    EncoderRole,
    EncoderSettings,
    FilesIdentity,
    ModelIdentity,
)
from diffprep_resources.errors import ModelError
from diffprep_resources.hub.base import Repository, child
from diffprep_resources.hub.local import LocalRepository
from diffprep_resources.hub.models import ModelHub

TOKENIZER_NAMES = frozenset(
    {
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "spiece.model",
        "vocab.json",
        "merges.txt",
        # Of a picture's encoder: what makes its input.
        "preprocessor_config.json",
    }
)


@dataclass(frozen=True, slots=True)
class ComponentPlace:
    """The usual place of one encoder in a diffusers repository of its family."""

    role: EncoderRole
    label: str
    path_setting: Literal["vae_path", "t5_path", "clip_path"]
    subfolder: str
    weights_name: Literal["diffusion_pytorch_model", "model"]
    tokenizer_subfolder: str | None = None
    tokenizer_label: str = "tokenizer"
    # Any one of these sets of files makes a tokenizer.
    tokenizer_sets: tuple[frozenset[str], ...] = ()


@dataclass(frozen=True, slots=True)
class Files:
    """Some files of one folder of a repository: those that are loaded, and nothing else."""

    repository: Repository
    subfolder: str
    names: tuple[str, ...]

    def identity(self) -> FilesIdentity:
        return FilesIdentity(
            kind=self.repository.kind,
            reference=self.repository.reference,
            revision=self.repository.revision(self.subfolder, self.names),
            subfolder=self.subfolder,
        )

    def config(self) -> dict[str, Any]:
        """The folder's config.json."""
        return self.repository.read_json(child(self.subfolder, "config.json"))

    def folder(self) -> Path:
        """The local folder that holds the files, fetched first where need be."""
        wanted = [child(self.subfolder, name) for name in self.names]
        return self.repository.folder(wanted) / self.subfolder

    def size_bytes(self) -> int:
        """Size of the files together, fetched first where need be."""
        folder = self.folder()
        return sum((folder / name).stat().st_size for name in self.names)

    def missing_bytes(self) -> int:
        """Size of those files that are to be fetched first; 0 where all are here."""
        return self.repository.missing_bytes(child(self.subfolder, name) for name in self.names)

    def __str__(self) -> str:
        subfolder = f"/{self.subfolder}" if self.subfolder else ""
        return f"{self.repository.reference}{subfolder}"


@dataclass(frozen=True, slots=True)
class Component:
    """One encoder's weights and config, and its tokenizer where it has one."""

    place: ComponentPlace
    weights: Files
    tokenizer: Files | None

    def identity(self) -> ModelIdentity:
        tokenizer = None if self.tokenizer is None else self.tokenizer.identity()
        return ModelIdentity(self.place.role, self.weights.identity(), tokenizer)

    def missing_bytes(self) -> int:
        """Size of the files that are to be fetched first. Raises ModelError where refused."""
        tokenizer = 0 if self.tokenizer is None else self.tokenizer.missing_bytes()
        return self.weights.missing_bytes() + tokenizer


@dataclass(slots=True)
class ComponentFinder:
    """Finds components. Opens each repository once, and `model_path` only when it is needed.

    `main` is `model_path`'s repository where it is open already.
    """

    settings: EncoderSettings
    hub: ModelHub
    main: Repository | None = None
    _open: dict[str, Repository] = field(default_factory=dict)

    def find(self, place: ComponentPlace) -> Component:
        """The component at its override or in `model_path`. Raises ModelError saying what lacks."""
        repository = self.repository(
            getattr(self.settings, place.path_setting) or None, place=place
        )
        if "config.json" in repository.names(place.subfolder):
            subfolder = place.subfolder
        elif self.is_override(place) and "config.json" in repository.names(""):
            subfolder = ""
        else:
            raise ModelError(
                f"{place.label}: {repository.reference} has no {place.subfolder}/config.json"
                + (" and no config.json" if self.is_override(place) else "")
                + f"; {self.setting(place)} must be a diffusers repository"
                + (", or the encoder's own folder" if self.is_override(place) else "")
            )
        weights = Files(repository, subfolder, weight_names(repository, subfolder, place=place))
        return Component(place, weights, self._tokenizer(weights, place=place))

    def repository(self, reference: str | None, *, place: ComponentPlace) -> Repository:
        """The opened repository; None means `model_path`."""
        if reference is None and self.main is not None:
            return self.main
        name = reference or self.settings.model_path
        if name not in self._open:
            used_for = f"{place.label} ({self.setting(place, reference=reference)})"
            self._open[name] = self.hub.repository(name, used_for=used_for)
        return self._open[name]

    def is_override(self, place: ComponentPlace) -> bool:
        return bool(getattr(self.settings, place.path_setting))

    def setting(self, place: ComponentPlace, *, reference: str | None = None) -> str:
        """The recipe's key that names the component's repository."""
        overridden = reference is not None or self.is_override(place)
        return f"model.{place.path_setting if overridden else 'model_path'}"

    def _tokenizer(self, weights: Files, *, place: ComponentPlace) -> Files | None:
        usual = place.tokenizer_subfolder
        if usual is None:
            return None
        candidates: list[tuple[Repository, str]] = [
            (weights.repository, usual),
            (weights.repository, weights.subfolder),
        ]
        if isinstance(weights.repository, LocalRepository) and not weights.subfolder:
            candidates.append((weights.repository.beside(), usual))
        for repository, subfolder in candidates:
            if found := tokenizer_files(repository, subfolder, sets=place.tokenizer_sets):
                return found
        tried = [f"{repository.reference}/{subfolder}" for repository, subfolder in candidates]
        main = self.repository(None, place=place)
        if found := tokenizer_files(main, usual, sets=place.tokenizer_sets):
            return found
        tried.append(f"{main.reference}/{usual}")
        raise ModelError(
            f"{place.label}: no {place.tokenizer_label} found; looked in {', '.join(tried)}. "
            f"Name a whole diffusers repository in {self.setting(place)} or model.model_path"
        )


def tokenizer_files(
    repository: Repository, subfolder: str, *, sets: Iterable[frozenset[str]]
) -> Files | None:
    """The tokenizer's files in `subfolder`, None when there is no whole tokenizer."""
    names = repository.names(subfolder)
    if not any(wanted <= names for wanted in sets):
        return None
    return Files(repository, subfolder, tuple(sorted(names & TOKENIZER_NAMES)))


def weight_names(
    repository: Repository, subfolder: str, *, place: ComponentPlace
) -> tuple[str, ...]:
    """config.json and the safetensors files that are loaded: one file, or an index and its shards.

    Raises ModelError when there are none: pickled weights are never loaded.
    """
    names = repository.names(subfolder)
    single = f"{place.weights_name}.safetensors"
    index = f"{single}.index.json"
    where = f"{repository.reference}/{subfolder}".rstrip("/")
    found = {name for name in (single, index) if name in names}
    if index in names:
        found |= _shard_names(repository, child(subfolder, index))
    if not found:
        pickled = sorted(name for name in names if name.endswith((".bin", ".pt", ".ckpt")))
        detail = f" (it has {', '.join(pickled)}, which may hold code)" if pickled else ""
        raise ModelError(
            f"{place.label}: {where} has no {single} and no {index}{detail}; weights are read from "
            "safetensors only"
        )
    missing = sorted(found - names)
    if missing:
        raise ModelError(
            f"{place.label}: {where} lacks {', '.join(missing)}, named in {index}; fetch it whole"
        )
    return tuple(sorted(found | {"config.json"}))


def _shard_names(repository: Repository, index: str) -> set[str]:
    weight_map = repository.read_json(index).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise ModelError(f"{repository.reference}/{index}: weight_map must name the shards")
    shards = {str(name) for name in weight_map.values()}
    for name in shards:
        child("", name)
    return shards
