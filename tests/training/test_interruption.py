"""Ctrl-C waits for a safe place, once."""

import os
import signal
import threading

import pytest

from tapgnn.training.interruption import Interruption

pytestmark = pytest.mark.usefixtures("heard")


def press():
    os.kill(os.getpid(), signal.SIGINT)


def test_the_first_waits_until_it_is_asked_for():
    interruption = Interruption()
    with interruption:
        interruption.check()
        press()
        assert interruption.asked
        with pytest.raises(KeyboardInterrupt):
            interruption.check()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_second_does_not_wait():
    with Interruption():
        press()
        with pytest.raises(KeyboardInterrupt):
            press()


def test_a_handler_of_the_process_and_other_threads_are_left_alone():
    heard = []
    signal.signal(signal.SIGINT, lambda *_: heard.append(True))
    with Interruption() as interruption:
        press()
    assert heard == [True]
    assert not interruption.asked
    signal.signal(signal.SIGINT, signal.default_int_handler)
    found = []

    def work():
        with Interruption():
            found.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [signal.default_int_handler]
