"""A small server that speaks the Hub's protocol, as the real huggingface_hub asks it.

Files of LFS kind are redirected to a second server, as the Hub does to its storage.
"""

import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote

_REPOSITORY = r"(?P<repo>[\w.-]+/[\w.-]+)"
_INFO = re.compile(rf"/api/(?P<kind>models|datasets)/{_REPOSITORY}(/revision/(?P<rev>[^/]+))?")
_TREE = re.compile(rf"/api/(?P<kind>models|datasets)/{_REPOSITORY}/tree/(?P<rev>[^/]+)")
_FILE = re.compile(rf"/(datasets/)?{_REPOSITORY}/resolve/(?P<rev>[^/]+)/(?P<name>.+)")
_STORED = re.compile(r"/storage/(?P<oid>[0-9a-f]{64})")


@dataclass
class DatasetHub:
    """`commits` hold each repository's files by commit; `branches` say which commit is what.

    `faults` are answers to give before the true one, by a part of the path: a status, "reset",
    "silent" (no answer for a second), "cut" (half of the body, then the connection closes) or
    "junk" (other bytes of equal length). `moved` sends an old name on to the new one; while `down`
    every answer is 503.
    """

    url: str = ""
    storage_url: str = ""
    commits: dict[str, dict[str, dict[str, bytes]]] = field(default_factory=dict)
    branches: dict[str, dict[str, str]] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    moved: dict[str, str] = field(default_factory=dict)
    needs_token: str | None = None
    down: bool = False
    faults: dict[str, list[object]] = field(default_factory=dict)
    retry_after: str = "0"
    requests: list[str] = field(default_factory=list)
    ranges: list[str] = field(default_factory=list)
    storage_tokens: set[str | None] = field(default_factory=set)
    tokens: set[str | None] = field(default_factory=set)

    def add(self, repo: str, files: dict[str, bytes], *, branch: str = "main") -> str:
        """A new commit of these files, at the end of `branch`."""
        content = sorted((name, hashlib.sha1(data).hexdigest()) for name, data in files.items())
        commit = hashlib.sha1(json.dumps([repo, content]).encode()).hexdigest()
        self.commits.setdefault(repo, {})[commit] = dict(files)
        self.branches.setdefault(repo, {})[branch] = commit
        return commit

    def fetched(self) -> Counter[str]:
        """How often the bytes of each file were asked for, by name."""
        names = []
        for line in self.requests:
            match = _FILE.fullmatch(line.removeprefix("GET "))
            if match:
                names.append(unquote(match["name"]))
        return Counter(names)

    def files_at(self, repo: str, revision: str) -> dict[str, bytes] | None:
        commits = self.commits.get(repo, {})
        return commits.get(self.branches.get(repo, {}).get(revision, revision))


class _Handler(BaseHTTPRequestHandler):
    hub: DatasetHub

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: object) -> None:
        pass

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.hub.requests.append(f"{self.command} {path}")
        if path == "/api/agent-harnesses":
            self._send(404)
            return
        token = self.headers.get("Authorization")
        (self.hub.storage_tokens if path.startswith("/storage/") else self.hub.tokens).add(token)
        fault = self._fault(path)
        if self.hub.down:
            self._send(503)
        elif isinstance(fault, int):
            self._send(fault, {"Retry-After": self.hub.retry_after})
        elif fault == "silent":
            time.sleep(1)
            self.close_connection = True
        elif fault == "reset":
            linger = struct.pack("ii", 1, 0)
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self.connection.close()
        else:
            self._true_answer(path, str(fault or ""))

    def _fault(self, path: str) -> object:
        for part, faults in self.hub.faults.items():
            if part in f"{self.command} {path}" and faults:
                return faults.pop(0)
        return None

    def _true_answer(self, path: str, fault: str) -> None:
        if match := _STORED.fullmatch(path):
            self._stored(match["oid"], fault)
            return
        match = _FILE.fullmatch(path) or _TREE.fullmatch(path) or _INFO.fullmatch(path)
        token = self.hub.needs_token
        if token and self.headers.get("Authorization") != f"Bearer {token}":
            self._send(401, {"X-Error-Code": "RepoNotFound"})
        elif match is not None and match["repo"] in self.hub.moved:
            new = self.hub.moved[match["repo"]]
            self._send(307, {"Location": self.path.replace(match["repo"], new, 1)})
        elif match is None or match["repo"] not in self.hub.commits:
            self._send(404, {"X-Error-Code": "RepoNotFound"})
        else:
            self._repository(match, unquote(match.groupdict().get("name") or ""), fault)

    def _repository(self, match: "re.Match[str]", name: str, fault: str) -> None:
        revision = unquote(match["rev"] or "main")
        files = self.hub.files_at(match["repo"], revision)
        if files is None:
            self._send(404, {"X-Error-Code": "RevisionNotFound"})
        elif match.re is _INFO:
            commit = self.hub.branches[match["repo"]].get(revision, revision)
            siblings = [{"rfilename": file} for file in files]
            self._json({"id": match["repo"], "sha": commit, "siblings": siblings})
        elif match.re is _TREE:
            self._json([_entry(file, data) for file, data in files.items()])
        elif match["repo"] in self.hub.gated:
            self._send(403, {"X-Error-Code": "GatedRepo"})
        elif name not in files:
            self._send(404, {"X-Error-Code": "EntryNotFound"})
        else:
            self._file(name, files[name], revision, fault)

    def _file(self, name: str, data: bytes, revision: str, fault: str) -> None:
        commit = {"X-Repo-Commit": revision}
        if not is_lfs(name):
            self._body(data, {"ETag": f'"{git_oid(data)}"', **commit}, fault)
            return
        oid = hashlib.sha256(data).hexdigest()
        location = f"{self.hub.storage_url}/storage/{oid}"
        linked = {"X-Linked-ETag": f'"{oid}"', "X-Linked-Size": str(len(data))}
        self._send(302, {"Location": location, **linked, **commit})

    def _stored(self, oid: str, fault: str) -> None:
        for commits in self.hub.commits.values():
            for files in commits.values():
                for data in files.values():
                    if hashlib.sha256(data).hexdigest() == oid:
                        self._body(data, {"ETag": f'"{oid}"'}, fault)
                        return
        self._send(404)

    def _body(self, data: bytes, headers: dict[str, str], fault: str) -> None:
        wanted = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        start, status = 0, 200
        if wanted:
            self.hub.ranges.append(wanted[0])
            start, status = int(wanted[1]), 206
            headers["Content-Range"] = f"bytes {start}-{len(data) - 1}/{len(data)}"
        body = bytes(len(data) - start) if fault == "junk" else data[start:]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body[: len(body) // 2] if fault == "cut" else body)
        if fault == "cut":
            self.close_connection = True

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


def is_lfs(name: str) -> bool:
    """Whether the Hub would keep the file in its large-file storage."""
    return name.endswith((".parquet", ".tar", ".jpg", ".png"))


def git_oid(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _entry(name: str, data: bytes) -> dict[str, object]:
    entry: dict[str, object] = {"type": "file", "path": name, "size": len(data)}
    if not is_lfs(name):
        return {**entry, "oid": git_oid(data)}
    lfs = {"oid": hashlib.sha256(data).hexdigest(), "size": len(data), "pointerSize": 130}
    return {**entry, "oid": git_oid(b"pointer"), "lfs": lfs}


@contextlib.contextmanager
def serving() -> Iterator[DatasetHub]:
    """A hub and its storage, each on a port of its own."""
    hub = DatasetHub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as front,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as storage,
    ):
        hub.url = f"http://127.0.0.1:{front.server_port}"
        hub.storage_url = f"http://127.0.0.1:{storage.server_port}"
        threads = [
            threading.Thread(
                target=server.serve_forever, daemon=True, kwargs={"poll_interval": 0.05}
            )
            for server in (front, storage)
        ]
        for thread in threads:
            thread.start()
        yield hub
        for server in (front, storage):
            server.shutdown()
        for thread in threads:
            thread.join()
