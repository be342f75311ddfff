"""What the tests of sources share: a sink that stands for the journal, and numbered events."""

import json
import queue
import threading
from contextlib import contextmanager

from tapgnn import Config
from tapgnn.data.schema import Schema
from tapgnn.errors import DataError
from tapgnn.online.journal.event_rows import RowReader

ROWS = RowReader(Schema(), Config(origin=0.0, span=1e9))


class Sink:
    """Keeps what is delivered, and the offsets of the source, as a journal would."""

    def __init__(self, reader=ROWS):
        self.reader, self.rows, self.batches, self.offsets = reader, [], [], {}
        self._change = threading.Condition()

    def deliver(self, batch, reached):
        ids = [[batch.ids[row] for row in side.tolist()] for side in (batch.src, batch.dst)]
        with self._change:
            self.batches.append(batch)
            self.rows += zip(*ids, batch.time.tolist(), strict=True)
            self.offsets |= {offset[:2]: offset[2] for offset in reached}
            self._change.notify_all()

    def wait(self, count):
        with self._change:
            assert self._change.wait_for(lambda: len(self.rows) >= count, 20), self.rows

    @contextmanager
    def following(self, source):
        """Run a source in a thread until the block ends."""
        stop, failure = threading.Event(), queue.Queue()

        def run():
            try:
                source.run(self.deliver, dict(self.offsets), stop, self.reader)
            except DataError as error:
                failure.put(error)

        thread = threading.Thread(target=run)
        thread.start()
        try:
            yield failure
        finally:
            stop.set()
            thread.join()


def line(number):
    return json.dumps({"src": f"n{number}", "dst": "m", "time": float(number)}) + "\n"


def event(number):
    return (f"n{number}", "m", float(number))
