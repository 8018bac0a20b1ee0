"""What to do about an error of the disk, which itself says only what it is."""

import errno
import re

KEPT = "what is finished is kept"
WAYS_OUT = {
    errno.ENOSPC: f"make room there, and run again; {KEPT}",
    errno.EDQUOT: f"make room within the quota there, and run again; {KEPT}",
    errno.EFBIG: f"raise the limit on file size (ulimit -f), and run again; {KEPT}",
    errno.EROFS: f"make it writable, or name another folder, and run again; {KEPT}",
    errno.EACCES: f"give this user the right to it, and run again; {KEPT}",
    errno.EPERM: f"give this user the right to it, and run again; {KEPT}",
    errno.EIO: f"the disk or its mount fails (the system's log says more); mend it, and run again; "
    f"{KEPT}",
    errno.ESTALE: f"mount it again, and run again; {KEPT}",
    errno.ENOTCONN: f"mount it again, and run again; {KEPT}",
    errno.EMFILE: f"raise the limit on open files (ulimit -n), and run again; {KEPT}",
}
_NUMBER = re.compile(r"\[Errno (\d+)\] ")


def with_way_out(words: str) -> str:
    """An error's words, followed by the way out where they tell of a disk, and of one thing."""
    numbers = {int(number) for number in _NUMBER.findall(words)}
    ways = {WAYS_OUT[number] for number in numbers if number in WAYS_OUT}
    return f"{words}; {ways.pop()}" if len(ways) == 1 and KEPT not in words else words
