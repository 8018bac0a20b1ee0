"""What Git LFS leaves in place of a file when a repository was cloned without its large files."""

_HEAD = b"version https://git-lfs.github.com/spec/"
LFS_POINTER = (
    "this is a Git LFS pointer, not the file itself; run `git lfs pull` in the clone, or fetch the "
    "repository with `hf download`"
)


def is_lfs_pointer(start: bytes) -> bool:
    """Whether a file that begins with these bytes (64 are enough) is such a pointer."""
    return start.startswith(_HEAD)
