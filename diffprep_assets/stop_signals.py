"""SIGINT and SIGTERM, also those that Dagster or Python loses."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterator

from diffprep_resources.errors import DiffprepError

STOPPED = "stopped; what is finished is kept, and the next run goes on from there"
ASKS_TO_STOP = frozenset({signal.SIGINT, signal.SIGTERM})
_listening: list[Callable[[], bool]] = []


@contextlib.contextmanager
def noticed_stop() -> Iterator[None]:
    """`stop_is_asked` tells, for the block, whether a signal asked to stop since it began.

    An exception that a signal's handler raises is lost where it strikes in a callback of the
    garbage collector, and Dagster drops a signal that comes after a run's last step (1.13.28,
    _utils/interrupts.py). Python tells a pipe of each signal, whoever handles it. Only the main
    thread hears of signals; elsewhere none is noticed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    before = signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    heard = set[int]()

    def stop() -> bool:
        with contextlib.suppress(BlockingIOError):
            heard.update(os.read(reading, 4096))
        return not heard.isdisjoint(ASKS_TO_STOP)

    _listening.append(stop)
    try:
        yield
    finally:
        _listening.remove(stop)
        signal.set_wakeup_fd(before)
        os.close(reading)
        os.close(writing)


def stop_is_asked() -> bool:
    """Whether a signal asked to stop; always no outside `noticed_stop`."""
    return any(stop() for stop in _listening)


def refuse_to_go_on() -> None:
    """Nothing, unless a signal asked to stop. Raises DiffprepError then."""
    if stop_is_asked():
        raise DiffprepError(STOPPED)


@contextlib.contextmanager
def same_handlers() -> Iterator[None]:
    """Puts SIGINT's and SIGTERM's handlers back when the block ends.

    Dagster leaves SIGTERM with SIGINT's handler: ignored, where a script started this process in
    the background.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ASKS_TO_STOP}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
