"""input_dir and input_path at s3:// and https://, against servers on this machine."""

import errno
import gzip
import json
import re
import shutil
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import boto3
import pytest
from moto.server import ThreadedMotoServer

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.addresses import checked_address, expanded, fixed_folder
from diffprep_resources.sources.stores import folder_store, pattern_store
from tests.cases.looking import looked_through
from tests.conftest import draw, write_tar

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ProjectFolder


@pytest.fixture(scope="module")
def s3_server() -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3_server: str, monkeypatch: pytest.MonkeyPatch, request: Any) -> Any:
    """An empty bucket, named for the test."""
    from s3fs import S3FileSystem

    for name, value in {
        "AWS_ENDPOINT_URL": s3_server,
        "AWS_ACCESS_KEY_ID": "anyone",
        "AWS_SECRET_ACCESS_KEY": "verysecretverysecret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    S3FileSystem.clear_instance_cache()
    name = re.sub("[^a-z0-9]+", "-", request.node.name)[:60].strip("-")
    made: Any = boto3.resource("s3")
    made = made.Bucket(name)
    made.create()
    return made


def tar_of(tmp_path: "Path", numbers: range) -> bytes:
    members: dict[str, bytes] = {}
    for number in numbers:
        picture = draw(number)
        members[picture.name] = picture.data
        members[f"{picture.stem}.txt"] = picture.caption.encode()
    write_tar(tmp_path / "x.tar", members)
    return (tmp_path / "x.tar").read_bytes()


def captions(project: "ProjectFolder", read_samples: Callable[..., Any]) -> dict[str, str]:
    samples = read_samples(project.layout().output_dir)
    return {key: sample["caption"] for key, sample in samples.items()}


def test_a_folder_in_an_object_store(
    project: "ProjectFolder", bucket: Any, read_samples: Callable[..., Any]
) -> None:
    drawings = [draw(number) for number in range(3)]
    for picture in drawings:
        bucket.put_object(Key=f"set/images/{picture.name}", Body=picture.data)
        text = picture.caption.encode()
        bucket.put_object(Key=f"set/captions/{picture.stem}.txt", Body=text)
    bucket.put_object(Key="set/notes.pdf", Body=b"no picture")
    bucket.put_object(Key="other/x.jpg", Body=drawings[0].data)
    source = {"type": "directory", "input_dir": f"s3://{bucket.name}/set"}
    project.write_recipe(source=source)
    report = project.run()
    assert report.error is None
    assert captions(project, read_samples) == {f"images/{d.name}": d.caption for d in drawings}
    # One caption edited: that picture alone is looked at and encoded again.
    bucket.put_object(Key=f"set/captions/{drawings[1].stem}.txt", Body=b"another")
    edited = project.run()
    assert edited.error is None
    assert edited.summaries["bucket"].samples.encoded == 1
    assert edited.summaries["encode_latents"].samples.encoded == 0
    assert captions(project, read_samples)[f"images/{drawings[1].name}"] == "another"
    # One picture gone: its sample goes, and its bytes.
    bucket.Object(f"set/images/{drawings[2].name}").delete()
    assert project.run().written == 2
    assert not list(project.layout().folder.rglob(drawings[2].name))
    written = [path for path in project.folder.rglob("*") if path.is_file()]
    assert not [path for path in written if b"verysecretverysecret" in path.read_bytes()]


def test_tars_in_an_object_store(
    project: "ProjectFolder",
    bucket: Any,
    read_samples: Callable[..., Any],
    tmp_path: "Path",
) -> None:
    for number in range(3):
        data = tar_of(tmp_path, range(2 * number, 2 * number + 2))
        bucket.put_object(Key=f"shards/a/{number:03d}.tar", Body=data)
    pattern = f"s3://{bucket.name}/shards/*/{{000..001}}.tar"
    project.write_recipe(source={"type": "webdataset", "input_path": pattern})
    report = project.run()
    assert report.error is None
    expected = {f"a/{n // 2:03d}.tar::{draw(n).stem}": draw(n).caption for n in range(4)}
    assert captions(project, read_samples) == expected
    again = project.run()
    assert {stage.done for stage in again.summaries.values()} == {0}


def test_a_bucket_that_is_not_there_is_named(project: "ProjectFolder", bucket: Any) -> None:
    source = {"type": "directory", "input_dir": "s3://no-such-bucket/set"}
    project.write_recipe(source=source)
    error = project.run().error
    assert error is not None
    assert "no-such-bucket" in error[1]
    assert "verysecret" not in error[1]


@pytest.fixture
def web() -> Iterator[Any]:
    """A web server of a few files, which knows ranges, and breaks off the first transfers."""

    class Handler(BaseHTTPRequestHandler):
        files: dict[str, bytes] = {}  # noqa: RUF012 (one server a test)
        cuts = 0
        knows_head = True
        packs = False
        asked: list[str] = []  # noqa: RUF012

        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            data = type(self).files.get(self.path)
            type(self).asked.append(f"{self.command} {self.path} {self.headers.get('Range')}")
            no_head = self.command == "HEAD" and not type(self).knows_head
            if data is None or no_head:
                self.send_response(405 if no_head else 404)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            found = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
            start = int(found[1]) if found else 0
            self.send_response(206 if found else 200)
            weak = "W/" if self.command == "HEAD" else ""
            self.send_header("ETag", f'{weak}"{hash(data)}"')
            if type(self).packs:
                data = gzip.compress(data)
                self.send_header("Content-Encoding", "gzip")
            self.send_header("Content-Length", str(len(data) - start))
            self.end_headers()
            if self.command == "HEAD":
                return
            if type(self).cuts:
                type(self).cuts -= 1
                self.wfile.write(data[start : start + 1000])
                self.close_connection = True
            else:
                self.wfile.write(data[start:])

    handler = type("Fresh", (Handler,), {"files": {}, "asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        handler.url = f"http://127.0.0.1:{server.server_port}"  # pyright: ignore[reportAttributeAccessIssue] (a class made here)
        yield handler
        server.shutdown()
        thread.join()


def test_tars_on_a_web_server(
    project: "ProjectFolder", web: Any, read_samples: Callable[..., Any], tmp_path: "Path"
) -> None:
    for number in range(3):
        data = tar_of(tmp_path, range(2 * number, 2 * number + 2))
        web.files[f"/set/x%20{number:03d}.tar"] = data
    web.cuts = 1
    pattern = f"{web.url}/set/x%20{{000..001}}.tar"
    project.write_recipe(source={"type": "webdataset", "input_path": pattern})
    report = project.run()
    assert report.error is None
    expected = {f"x {n // 2:03d}.tar::{draw(n).stem}": draw(n).caption for n in range(4)}
    assert captions(project, read_samples) == expected
    assert [line for line in web.asked if "bytes=1000-" in line]
    web.asked.clear()
    assert {stage.done for stage in project.run().summaries.values()} == {0}
    assert all(line.startswith("HEAD") for line in web.asked)


def test_a_server_that_knows_no_head_or_packs_unasked_is_read(web: Any, tmp_path: "Path") -> None:
    web.files["/a.tar"] = tar_of(tmp_path, range(2))
    source = {"type": "webdataset", "input_path": f"{web.url}/a.tar"}
    expected = {f"a.tar::{draw(n).stem}": draw(n).caption for n in range(2)}
    web.knows_head = False
    assert looked_through(tmp_path, "headless", source=source).captions == expected
    web.packs = True
    assert looked_through(tmp_path, "packed", source=source).captions == expected


def test_fields_of_a_remote_tar_are_read_of_what_is_fetched(web: Any, tmp_path: "Path") -> None:
    members: dict[str, bytes] = {}
    for number in range(2):
        picture = draw(number)
        stored = json.dumps({"caption": picture.caption, "score": number}).encode()
        members |= {picture.name: picture.data, f"{picture.stem}.json": stored}
    write_tar(tmp_path / "x.tar", members)
    web.files["/a.tar"] = (tmp_path / "x.tar").read_bytes()
    source = {"type": "webdataset", "input_path": f"{web.url}/a.tar"}
    dataset = looked_through(tmp_path, source=source).dataset
    shutil.rmtree(dataset.layout.downloaded_files("p00000"))
    stamps = list(dataset.source.field_stamps(dataset.source.stamps(["a.tar"])))
    found = {row.source_key: row.values for row in dataset.source.fields(stamps, ["score"])}
    assert found == {f"a.tar::{draw(number).stem}": (number,) for number in range(2)}
    assert dataset.source.field_names(stamps) == {"caption", "score"}


def test_keys_of_a_store_with_odd_letters_are_files_and_too_long_ones_are_counted(
    bucket: Any, tmp_path: "Path"
) -> None:
    picture = draw(0).data
    names = ("a b", "a%20b", "a+b", "a%b", "[1]", "{2}", "back\\slash", "\\xe9", "caf\u00e9")
    for name in (*names, "x" * 300):
        bucket.put_object(Key=f"set/{name}.jpg", Body=picture)
        bucket.put_object(Key=f"set/{name}.txt", Body=name.encode())
    source = {"type": "directory", "input_dir": f"s3://{bucket.name}/set"}
    found = looked_through(tmp_path, source=source)
    assert found.captions == {f"{name}.jpg": name for name in names}
    assert found.other_files == {"name too long for a file": 2}
    # A disk has no file that is a folder too.
    bucket.put_object(Key="set/a+b.jpg/x.txt", Body=b"x")
    found = looked_through(tmp_path, "again", source=source)
    assert found.other_files["name of a folder too"] == 1
    assert set(found.captions) == {f"{name}.jpg" for name in names} - {"a+b.jpg"}


def test_a_full_disk_is_not_taken_for_a_refusal_of_the_store() -> None:
    store = folder_store("s3://bucket/set")
    full = OSError(errno.ENOSPC, "No space left on device")
    assert store.explained(full) is full
    assert "Credentials" in str(store.explained(PermissionError("Forbidden")))


def test_a_missing_file_of_a_web_server_is_named(project: "ProjectFolder", web: Any) -> None:
    pattern = f"{web.url}/{{a,b}}.tar"
    project.write_recipe(source={"type": "webdataset", "input_path": pattern})
    error = project.run().error
    assert error is not None
    assert f"{web.url}/a.tar (HTTP 404)" in error[1]


def test_what_cannot_be_listed_is_refused() -> None:
    with pytest.raises(SettingError, match="a web server does not list its files"):
        folder_store("https://example.com/set")
    store = pattern_store("https://example.com/*.tar")
    with pytest.raises(SettingError, match=r"name them with braces"):
        store.listing(pinned=None)


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("http://example.com/a.tar", "must be a local path, or begin with s3:// or https://"),
        ("ftp://example.com/a.tar", "must be a local path, or begin with s3:// or https://"),
        ("https://me:secret@example.com/a.tar", "no user name or password"),
        ("s3://key:secret@bucket/a.tar", "no user name or password"),
        ("https://example.com/a.tar?X-Amz-Signature=secret", "must hold no query"),
        ("https://example.com:port/a.tar", "is not an address that can be read"),
        ("https://[::1/a.tar", "is not an address that can be read"),
    ],
)
def test_an_address_with_a_secret_or_of_another_kind_is_refused(address: str, reason: str) -> None:
    with pytest.raises(SettingError) as caught:
        checked_address(address, key="source.input_path")
    assert reason in str(caught.value)
    assert "secret" not in str(caught.value)


def test_braces_are_written_out() -> None:
    def of(pattern: str) -> list[str]:
        return expanded(pattern, key="k")

    assert of("x-{008..011}.tar") == ["x-008.tar", "x-009.tar", "x-010.tar", "x-011.tar"]
    assert of("{a,b}/{0..1}") == ["a/0", "a/1", "b/0", "b/1"]
    assert of("plain") == ["plain"]
    for wrong in ("{}", "{a}", "{a..b}"):
        with pytest.raises(SettingError, match="braces hold"):
            of(wrong)
    with pytest.raises(SettingError, match="more than"):
        of("{0..999999999}")
    assert fixed_folder(["s3://b/a/0/x.tar", "s3://b/a/1/x.tar"]) == "s3://b/a/"
    assert fixed_folder(["s3://b/a/*/x.tar"]) == "s3://b/a/"
    assert fixed_folder(["http://[::1]:80/a/x.tar"]) == "http://[::1]:80/a/"
    with pytest.raises(SettingError, match="count down"):
        of("{3..1}")
