"""The store that an address of a recipe names."""

from diffprep_resources.errors import SettingError
from diffprep_resources.sources.addresses import checked_address, expanded, is_s3
from diffprep_resources.sources.remote_store import RemoteStore
from diffprep_resources.sources.s3 import S3Store
from diffprep_resources.sources.web import WebStore


def folder_store(address: str) -> RemoteStore:
    """The store of `source.input_dir`. Raises SettingError for an address that cannot be listed."""
    checked_address(address, key="source.input_dir")
    if not is_s3(address):
        raise SettingError(
            f"source.input_dir: a web server does not list its files, so {address} cannot be read "
            "as a folder; use s3://, or source.type webdataset with the tars named in input_path"
        )
    return S3Store((address,), whole_folder=True)


def pattern_store(pattern: str) -> RemoteStore:
    """The store of `source.input_path`. Raises SettingError for what is no pattern."""
    checked_address(pattern, key="source.input_path")
    addresses = tuple(expanded(pattern, key="source.input_path"))
    return S3Store(addresses, whole_folder=False) if is_s3(pattern) else WebStore(addresses)
