"""Files of a web server, by their addresses: a web server does not list."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import quote, unquote

from diffprep_resources.errors import SettingError, SourceAccessError
from diffprep_resources.hub.polite import TransferBrokenError, polite
from diffprep_resources.sources.addresses import fixed_folder, has_magic
from diffprep_resources.sources.remote_store import RemoteFile, RemoteListing, RemoteStore
from diffprep_resources.sources.transfer import Body, Wanted

if TYPE_CHECKING:
    import httpx2

T = TypeVar("T")
_ASKED_AT_ONCE = 8
_NO_HEAD = (405, 501)
_TIMEOUT_S = 60.0
# As it is on the server: a compressed answer has other ranges and another length.
_HEADERS = {"Accept-Encoding": "identity"}


@dataclass(frozen=True, slots=True)
class WebStore(RemoteStore):
    """Each address is one file."""

    addresses: tuple[str, ...]

    @property
    def origin(self) -> str:
        return fixed_folder(list(self.addresses))

    def listing(self, *, pinned: str | None) -> RemoteListing:
        magic = next((address for address in self.addresses if has_magic(address)), None)
        if magic is not None:
            raise SettingError(
                f"source.input_path: a web server does not list its files, so *, ? and [] cannot "
                f"be followed: {magic}; name them with braces, like x-{{000..012}}.tar or {{a,b}}"
            )
        with ThreadPoolExecutor(_ASKED_AT_ONCE) as pool:
            return RemoteListing(list(pool.map(self._looked_up, self.addresses)))

    def _looked_up(self, address: str) -> RemoteFile:
        def head() -> RemoteFile:
            with _client() as client:
                response = client.head(address, headers=_HEADERS)
                if response.status_code in _NO_HEAD:
                    with client.stream("GET", address, headers=_HEADERS) as response:
                        return self._facts(response, address)
                return self._facts(response, address)

        return self._asked(head, what=address)

    def _facts(self, response: "httpx2.Response", address: str) -> RemoteFile:
        _check(response, address)
        size = int(response.headers.get("Content-Length", -1))
        if "Content-Encoding" in response.headers:
            # Packed although that was not asked for: the length is not the file's.
            size = -1
        return RemoteFile(self._path(address), size, _version(response, size))

    def _path(self, address: str) -> str:
        return unquote(address[len(self.origin) :])

    def _address(self, file: RemoteFile) -> str:
        by_path = {self._path(address): address for address in self.addresses}
        return by_path.get(file.path) or self.origin + quote(file.path)

    def check_access(self, file: RemoteFile, *, revision: str | None) -> None:
        """Its HEAD was answered when it was listed."""

    def wanted(self, file: RemoteFile, *, revision: str | None) -> Wanted:
        address = self._address(file)
        return Wanted(
            what=address,
            version=file.version,
            size=file.size,
            open_at=lambda start: self._open(file, address, start),
        )

    def explained(self, error: Exception) -> Exception:
        from httpx2 import HTTPError

        return self._refused(error) if isinstance(error, HTTPError | ConnectionError) else error

    @contextmanager
    def _open(self, file: RemoteFile, address: str, start: int) -> Iterator[Body]:
        headers = {**_HEADERS, "Range": f"bytes={start}-"} if start else _HEADERS
        with _client() as client, client.stream("GET", address, headers=headers) as response:
            _check(response, address)
            partial = response.status_code == 206
            told = "ETag" in response.headers or "Last-Modified" in response.headers
            if told and _version(response, file.size) != file.version:
                raise SourceAccessError(
                    f"{address} changed since it was listed; run source_index again, as "
                    "`diffprep run` does"
                )
            yield Body(start if partial else 0, response.iter_bytes())

    def _asked(self, call: Callable[[], T], *, what: str) -> T:
        from httpx2 import HTTPError

        try:
            return polite(call, what=what)
        except HTTPError as error:
            raise self._refused(error, what=what) from None

    def _refused(self, error: Exception, *, what: str | None = None) -> SourceAccessError:
        status = getattr(getattr(error, "response", None), "status_code", None)
        detail = type(error).__name__ if status is None else f"HTTP {status}"
        if isinstance(error, TransferBrokenError):
            detail = str(error)
        return SourceAccessError(
            f"source: cannot read {what or self.origin} ({detail}); check source.input_path, or "
            "try again later"
        )


def _client() -> "httpx2.Client":
    import httpx2

    return httpx2.Client(follow_redirects=True, timeout=_TIMEOUT_S)


def _check(response: "httpx2.Response", address: str) -> None:
    """Raises for a refusal, and where https:// was left on the way."""
    response.raise_for_status()
    if address.startswith("https:") and response.url.scheme != "https":
        raise SourceAccessError(
            f"source: {address} leads to an address without https; name "
            "another in source.input_path"
        )


def _version(response: "httpx2.Response", size: int) -> str:
    etag = response.headers.get("ETag", "")
    # A weak one, W/"...", differs from the strong one only in how exactly it is meant.
    return (
        etag.removeprefix("W/").strip('"') or f"{size}-{response.headers.get('Last-Modified', '')}"
    )
