"""Files of an object store (s3://), through s3fs, with the environment's own credentials."""

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from diffprep_resources.errors import DiffprepError, SettingError, SourceAccessError
from diffprep_resources.hub.polite import polite
from diffprep_resources.sources.addresses import fixed_folder, has_magic
from diffprep_resources.sources.remote_store import RemoteFile, RemoteListing, RemoteStore
from diffprep_resources.sources.transfer import Body, Wanted

T = TypeVar("T")
_BLOCK_BYTES = 8 << 20
# What the disk here says, never s3fs.
_OF_DISK = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class S3Store(RemoteStore):
    """All files of one folder address, or those that any of several address patterns match."""

    addresses: tuple[str, ...]
    whole_folder: bool

    @property
    def origin(self) -> str:
        if self.whole_folder:
            return self.addresses[0].rstrip("/") + "/"
        return fixed_folder(list(self.addresses))

    def listing(self, *, pinned: str | None) -> RemoteListing:
        found: dict[str, dict[str, Any]] = {}
        for address in self.addresses:
            found |= self._asked(lambda address=address: self._matches(address), what=address)
        start = len(self.origin.removeprefix("s3://"))
        files = [
            RemoteFile(path[start:], int(facts["size"]), _version(facts))
            for path, facts in sorted(found.items())
            if facts["type"] == "file" and not path.endswith("/")
        ]
        return RemoteListing(files)

    def _matches(self, address: str) -> dict[str, dict[str, Any]]:
        files = _file_system()
        # What another run listed in this process may be old.
        files.invalidate_cache()
        if self.whole_folder:
            return files.find(address, detail=True)
        if has_magic(address):
            return files.glob(address, detail=True)
        facts = files.info(address)
        return {facts["name"]: facts}

    def check_access(self, file: RemoteFile, *, revision: str | None) -> None:
        def read_a_byte() -> None:
            with _file_system().open(self._address(file), "rb", cache_type="none") as opened:
                opened.read(1)

        if file.size:
            self._asked(read_a_byte, what=self._address(file))

    def wanted(self, file: RemoteFile, *, revision: str | None) -> Wanted:
        return Wanted(
            what=self._address(file),
            version=file.version,
            size=file.size,
            open_at=lambda start: self._open(file, start),
        )

    def explained(self, error: Exception) -> Exception:
        return self._refused(error) if _is_of_store(error) else error

    def _address(self, file: RemoteFile) -> str:
        return self.origin + file.path

    @contextmanager
    def _open(self, file: RemoteFile, start: int) -> Iterator[Body]:
        address = self._address(file)
        files = _file_system()
        if _version(files.info(address, refresh=True)) != file.version:
            raise SourceAccessError(
                f"{address} changed since it was listed; run source_index again, as `diffprep run` "
                "does"
            )
        with files.open(address, "rb", block_size=_BLOCK_BYTES, cache_type="none") as opened:
            opened.seek(start)
            yield Body(start, iter(lambda: opened.read(_BLOCK_BYTES), b""))

    def _asked(self, call: Callable[[], T], *, what: str) -> T:
        try:
            return polite(call, what=what)
        except Exception as error:
            if not _is_of_store(error):
                raise
            raise self._refused(error) from None

    def _refused(self, error: Exception) -> SourceAccessError:
        """Names the kind of error only: messages of such libraries may hold keys."""
        if isinstance(error, FileNotFoundError):
            return SourceAccessError(
                f"source: {self.origin} does not exist, or the credentials do not let it be seen; "
                "check the address, AWS_ENDPOINT_URL, and the rights to list and read"
            )
        return SourceAccessError(
            f"source: cannot read {self.origin} ({type(error).__name__}). Credentials are the "
            "environment's: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, AWS_PROFILE, or the "
            "machine's role; AWS_ENDPOINT_URL names another store than Amazon's"
        )


def _is_of_store(error: Exception) -> bool:
    if isinstance(error, OSError) and error.errno in _OF_DISK:
        return False
    known = type(error).__module__.partition(".")[0] in ("botocore", "aiobotocore", "aiohttp")
    return not isinstance(error, DiffprepError) and (known or isinstance(error, OSError))


def _version(facts: dict[str, Any]) -> str:
    etag = str(facts.get("ETag") or "").strip('"')
    return etag or f"{facts['size']}-{facts.get('LastModified')}"


def _file_system() -> Any:
    """s3fs' own, one per process. Raises SettingError where it is not installed."""
    try:
        import s3fs
    except ImportError as error:
        raise SettingError("an s3:// source needs s3fs: pip install 'diffprep[s3]'") from error
    return s3fs.S3FileSystem(use_listings_cache=False)
