from pathlib import Path

import pytest

from diffprep_resources.errors import ModelError
from diffprep_resources.hub.huggingface import is_hub_name
from diffprep_resources.hub.models import ModelHub


def test_an_existing_folder_goes_before_a_hub_name(tmp_path: Path) -> None:
    (tmp_path / "owner" / "name").mkdir(parents=True)
    hub = ModelHub(base_folder=tmp_path)
    found = hub.repository("owner/name", used_for="VAE")
    assert found.kind == "local"
    assert found.reference == "owner/name"
    assert found.folder([]) == tmp_path / "owner" / "name"


@pytest.mark.parametrize(
    "reference", ["./none/here", "/none/here", "~none/here", "one", "a/b/c", ""]
)
def test_what_is_neither_folder_nor_hub_name_is_refused(tmp_path: Path, reference: str) -> None:
    hub = ModelHub(base_folder=tmp_path / "none")
    with pytest.raises(ModelError, match=r"VAE: .*neither an existing folder"):
        hub.repository(reference, used_for="VAE")


def test_hub_names_are_owner_and_name_with_an_optional_revision() -> None:
    for name in ("black-forest-labs/FLUX.1-dev", "a/b", "a/b@main", "a/b@refs/pr/1"):
        assert is_hub_name(name)
    for name in ("a", "a/b/c", "../b", "a/..", "a/b@", "a b/c", "a/b@../x", "a/\u00e9"):
        assert not is_hub_name(name)
