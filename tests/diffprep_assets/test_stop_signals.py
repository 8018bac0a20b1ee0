"""Signals that ask to stop are noticed whoever handles them meanwhile."""

import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from diffprep_assets.stop_signals import (
    noticed_stop,
    refuse_to_go_on,
    same_handlers,
    stop_is_asked,
)
from diffprep_resources.errors import DiffprepError


@pytest.fixture(autouse=True)
def handlers_put_back() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_its_handler_forgets_is_noticed_until_the_block_ends(number: signal.Signals):
    with noticed_stop():
        assert not stop_is_asked()
        refuse_to_go_on()
        signal.signal(number, lambda *_: None)
        os.kill(os.getpid(), number)
        assert stop_is_asked()
        assert stop_is_asked()
        with pytest.raises(DiffprepError, match="stopped; what is finished is kept"):
            refuse_to_go_on()
    assert not stop_is_asked()
    with noticed_stop():
        assert not stop_is_asked()


def test_a_block_within_another_takes_the_signals_that_come_meanwhile():
    signal.signal(signal.SIGTERM, lambda *_: None)
    with noticed_stop():
        with noticed_stop():
            os.kill(os.getpid(), signal.SIGTERM)
            assert stop_is_asked()
        assert not stop_is_asked()
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop_is_asked()


def test_another_signal_does_not_ask_to_stop():
    before = signal.signal(signal.SIGUSR1, lambda *_: None)
    try:
        with noticed_stop():
            os.kill(os.getpid(), signal.SIGUSR1)
            assert not stop_is_asked()
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_handlers_that_were_taken_away_are_put_back():
    got: list[int] = []
    # A shell that runs tests in the background leaves SIGINT ignored: start from a known handler.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, lambda number, _: got.append(number))
    try:
        with same_handlers():
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTERM)
        assert got == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_another_thread_hears_nothing_and_is_let_be():
    def ask() -> bool:
        assert threading.current_thread() is not threading.main_thread()
        with noticed_stop(), same_handlers():
            return stop_is_asked()

    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(ask).result() is False
