"""A small server that speaks the Hub's protocol for models, for the real huggingface_hub."""

import hashlib
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

COMMIT = "c0ffee" + "0" * 34
_REPOSITORY = r"(?P<repo>[\w.-]+/[\w.-]+)"
_INFO = re.compile(rf"/api/models/{_REPOSITORY}(/revision/[^/]+)?")
_TREE = re.compile(rf"/api/models/{_REPOSITORY}/tree/[^/]+")
_FILE = re.compile(rf"/{_REPOSITORY}/resolve/{COMMIT}/(?P<name>.+)")


@dataclass
class HubServer:
    """`files` by repository and name; `gated` and `missing` repositories; `down` answers 503."""

    url: str = ""
    files: dict[str, dict[str, bytes]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    needs_token: str | None = None
    down: bool = False
    requests: list[str] = field(default_factory=list)
    tokens: set[str | None] = field(default_factory=set)

    def fetched(self) -> set[str]:
        """Names of the files whose bytes were sent."""
        found = (_FILE.fullmatch(line.removeprefix("GET ")) for line in self.requests)
        return {match["name"] for match in found if match}


class _Handler(BaseHTTPRequestHandler):
    hub: HubServer

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.requests.append(f"{self.command} {path}")
        # huggingface_hub asks for its own list of agents too, without a token.
        if path != "/api/agent-harnesses":
            self.hub.tokens.add(self.headers.get("Authorization"))
        status, code = self._refusal(path)
        if status != 200:
            self._send(status, {"X-Error-Code": code})
        elif match := _FILE.fullmatch(path):
            data = self.hub.files[match["repo"]][match["name"]]
            self._send(200, {"ETag": f'"{_oid(data)}"', "X-Repo-Commit": COMMIT}, data)
        elif match := _TREE.fullmatch(path):
            self._json(
                [
                    {"type": "file", "path": name, "size": len(data), "oid": _oid(data)}
                    for name, data in self.hub.files[match["repo"]].items()
                ]
            )
        elif match := _INFO.fullmatch(path):
            siblings = [{"rfilename": name} for name in self.hub.files[match["repo"]]]
            self._json({"id": match["repo"], "sha": COMMIT, "siblings": siblings})

    def _refusal(self, path: str) -> tuple[int, str]:
        """Status, 200 when there is an answer, and the Hub's own word for what is wrong."""
        file = _FILE.fullmatch(path)
        match = file or _INFO.fullmatch(path) or _TREE.fullmatch(path)
        token = self.hub.needs_token
        if self.hub.down:
            return 503, ""
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            return 401, "RepoNotFound"
        if match is None or match["repo"] not in self.hub.files:
            return 404, "RepoNotFound"
        if file and match["repo"] in self.hub.gated:
            return 403, "GatedRepo"
        if file and file["name"] not in self.hub.files[file["repo"]]:
            return 404, "EntryNotFound"
        return 200, ""

    def _json(self, content: object) -> None:
        self._send(200, {"Content-Type": "application/json"}, json.dumps(content).encode())

    def _send(self, status: int, headers: dict[str, str] | None = None, body: bytes = b"") -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _oid(data: bytes) -> str:
    return hashlib.sha1(data).hexdigest()


@pytest.fixture
def hub_server() -> Iterator[HubServer]:
    server = HubServer()
    handler = type("Handler", (_Handler,), {"hub": server})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listening:
        server.url = f"http://127.0.0.1:{listening.server_port}"
        thread = threading.Thread(target=listening.serve_forever, daemon=True)
        thread.start()
        yield server
        listening.shutdown()
        thread.join()


@pytest.fixture
def flux_files() -> dict[str, bytes]:
    """A FLUX-like repository: true configs, weights that are never loaded, and files not wanted."""

    def config(**fields: object) -> bytes:
        return json.dumps(fields).encode()

    return {
        "README.md": b"# hello",
        "model_index.json": config(_class_name="FluxPipeline"),
        "flux1-dev.safetensors": b"huge",
        "transformer/diffusion_pytorch_model.safetensors": b"huge",
        "vae/config.json": config(
            _class_name="AutoencoderKL", latent_channels=16, block_out_channels=[8, 8, 8, 8]
        ),
        "vae/diffusion_pytorch_model.safetensors": b"vae",
        "vae/diffusion_pytorch_model.fp16.safetensors": b"huge",
        "text_encoder/config.json": config(model_type="clip_text_model", hidden_size=768),
        "text_encoder/model.safetensors": b"clip",
        "text_encoder/pytorch_model.bin": b"huge",
        "tokenizer/vocab.json": b'{"a": 0}',
        "tokenizer/merges.txt": b"#version: 0.2",
        "text_encoder_2/config.json": config(model_type="t5", d_model=4096),
        "text_encoder_2/model.safetensors.index.json": config(
            weight_map={"a": "model-1.safetensors", "b": "model-2.safetensors"}
        ),
        "text_encoder_2/model-1.safetensors": b"t5 one",
        "text_encoder_2/model-2.safetensors": b"t5 two",
        "tokenizer_2/spiece.model": b"pieces",
        "tokenizer_2/tokenizer_config.json": b"{}",
    }


@pytest.fixture
def run_script(
    hub_server: HubServer, tmp_path: Path
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """A function that runs Python against the server: huggingface_hub reads its address at import.

    The script has `family_for`, `EncoderSettings` and `hub` (a ModelHub) at hand.
    """
    prelude = (
        "from diffprep_resources.encoders.base import EncoderSettings\n"
        "from diffprep_resources.encoders.families import family_for\n"
        "from diffprep_resources.errors import DiffprepError\n"
        "from diffprep_resources.hub.models import ModelHub\n"
        "from pathlib import Path\n"
        "import sys\n"
        "hub = ModelHub(token_file=Path(sys.argv[1]) if sys.argv[1:] else None)\n"
    )

    def run(script: str, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        clean = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
        return subprocess.run(
            [sys.executable, "-c", prelude + script, *arguments],
            env=clean
            | {"HF_ENDPOINT": hub_server.url, "HF_HOME": str(tmp_path / "hf"), **environment},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    return run
