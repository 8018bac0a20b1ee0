"""A Hub of our own for the real huggingface_hub in this process."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.hub_server import DatasetHub, serving
from tests.pipeline.conftest import read_samples

__all__ = ["hub", "read_samples"]


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetHub]:
    """A running server that huggingface_hub takes for the Hub, with an empty cache and no login."""
    from huggingface_hub import constants
    from huggingface_hub.utils import close_session

    with serving() as hub:
        monkeypatch.setattr(constants, "ENDPOINT", hub.url)
        template = f"{hub.url}/{{repo_id}}/resolve/{{revision}}/{{filename}}"
        monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "hf" / "hub"))
        monkeypatch.setattr(constants, "HF_TOKEN_PATH", str(tmp_path / "hf" / "token"))
        monkeypatch.delenv("HF_TOKEN", raising=False)
        close_session()
        yield hub
        close_session()
