"""The fair lock: one thread at a time, in the order of requests, and none is lost."""

import threading
from types import SimpleNamespace

import pytest

from tapgnn.online.engine.fair_lock import FairLock


def wait_until(lock, waiting):
    while lock.waiting < waiting:
        threading.Event().wait(0.001)


def test_threads_pass_in_the_order_in_which_they_came_and_may_enter_again():
    lock, passed = FairLock(), []

    def enter(name):
        with lock, lock:
            passed.append(name)

    threads = [threading.Thread(target=enter, args=(name,)) for name in range(8)]
    with lock:
        for number, thread in enumerate(threads):
            thread.start()
            wait_until(lock, number + 1)
        assert passed == []
    for thread in threads:
        thread.join()
    assert passed == list(range(8))
    assert lock.waiting == 0


def test_one_at_a_time_is_inside():
    lock, inside, most = FairLock(), [], []

    def work():
        for _ in range(200):
            with lock:
                inside.append(1)
                most.append(len(inside))
                inside.pop()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(most) == {1}
    assert len(most) == 800


@pytest.mark.parametrize("its_turn_came", [False, True])
def test_one_who_gives_up_waiting_lets_the_next_one_pass(monkeypatch, its_turn_came):
    lock, asked, released = FairLock(), threading.Event(), threading.Event()

    class Interrupted:
        """A lock whose owner is interrupted while it waits for it."""

        def __init__(self):
            self._lock, self.times = threading.Lock(), 0

        def acquire(self):
            self.times += 1
            if self.times == 1:
                return self._lock.acquire()
            asked.set()
            assert released.wait(60)
            raise KeyboardInterrupt

        def release(self):
            self._lock.release()

    def interrupted():
        with pytest.raises(KeyboardInterrupt):
            lock.__enter__()

    with lock:
        names = SimpleNamespace(Lock=Interrupted, get_ident=threading.get_ident)
        monkeypatch.setattr("tapgnn.online.engine.fair_lock.threading", names)
        first = threading.Thread(target=interrupted)
        first.start()
        assert asked.wait(60)
        monkeypatch.undo()
        if not its_turn_came:
            released.set()
            first.join()
    released.set()
    first.join()
    with lock:
        assert lock.waiting == 0
