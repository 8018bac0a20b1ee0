from pathlib import Path

import pytest

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.local import LocalRepository


def repository(folder: Path, files: dict[str, str]) -> LocalRepository:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return LocalRepository(folder, given="shown", digest_cache=folder.parent / "digests.json")


def test_names_are_the_files_of_one_folder(tmp_path: Path) -> None:
    found = repository(tmp_path / "a", {"x.json": "", "vae/y.json": "", "vae/deep/z.json": ""})
    assert found.names("") == {"x.json"}
    assert found.names("vae") == {"y.json"}
    assert found.names("none") == frozenset()


def test_equal_names_and_bytes_give_one_revision_wherever_they_lie(tmp_path: Path) -> None:
    here = repository(tmp_path / "a", {"vae/1": "one", "vae/2": "two"})
    there = repository(tmp_path / "b", {"1": "one", "2": "two", "3": "three"})
    revision = here.revision("vae", ["1", "2"])
    assert revision == there.revision("", ["2", "1"])
    assert revision != there.revision("", ["1", "2", "3"])
    swapped = repository(tmp_path / "c", {"1": "two", "2": "one"})
    assert revision != swapped.revision("", ["1", "2"])


def test_a_name_that_leads_elsewhere_is_refused(tmp_path: Path) -> None:
    found = repository(tmp_path / "a", {"1": "one"})
    for name in ("../1", "..", "/etc/hostname", ""):
        with pytest.raises(ModelError, match="plain name"):
            found.revision("", [name])


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    found = repository(tmp_path / "a", {"1": "one"})
    with pytest.raises(ModelError, match="missing model files: 2"):
        found.folder(["1", "2"])
    with pytest.raises(ModelError, match="cannot read a model file"):
        found.revision("", ["2"])
    assert found.folder(["1"]) == tmp_path / "a"


@pytest.mark.parametrize(
    ("content", "reason"),
    [("{", "cannot be read as JSON"), ("[]", "JSON object"), (None, "no such")],
)
def test_json_that_is_no_object_is_refused_by_name(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    found = repository(tmp_path / "a", {} if content is None else {"c.json": content})
    with pytest.raises(ModelError, match=rf"c\.json: .*{reason}"):
        found.read_json("c.json")
