"""A real local server that misbehaves as it is told to."""

import hashlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

BODY = b"".join(b"%d,%d,%d\n" % (row % 97, row % 89, row) for row in range(40_000))


def digest(body):
    return hashlib.sha256(body).hexdigest()


class Site:
    """What the server serves and how it misbehaves; `asked` collects the Range header of every request."""

    def __init__(self):
        self.bodies = {"/tiny.edges": BODY}
        self.cuts = []  # after how many bytes to break each of the next answers, None for not at all
        self.codes = []  # which status to give for each of the next requests, None for the real answer
        self.ranges = True
        self.shift = 0
        self.length = True
        self.tags = True
        self.asked = []

    def url(self, path="/tiny.edges"):
        return f"http://127.0.0.1:{self.port}{path}"


def handler(site):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.0"

        def do_GET(self):
            wanted = self.headers.get("Range")
            site.asked.append(wanted)
            code = site.codes.pop(0) if site.codes else None
            if code is not None or self.path not in site.bodies:
                self.send_error(code or 404)
                return
            body = site.bodies[self.path]
            tag = f'"{digest(body)}"'
            start = int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and site.ranges else 0
            if self.headers.get("If-Range", tag) != tag:
                start = 0
            if start and start >= len(body):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(body)}")
                self.end_headers()
                return
            self.send_response(206 if start else 200)
            if start:
                self.send_header("Content-Range", f"bytes {start + site.shift}-{len(body) - 1}/{len(body)}")
            if site.length:
                self.send_header("Content-Length", str(len(body) - start))
            if site.tags:
                self.send_header("ETag", tag)
            self.end_headers()
            cut = site.cuts.pop(0) if site.cuts else None
            self.wfile.write(body[start:] if cut is None else body[start : start + cut])

        def log_message(self, *_):
            pass

    return Handler


@contextmanager
def served_site() -> Iterator[Site]:
    """A site while its server runs."""
    site = Site()
    with ThreadingHTTPServer(("127.0.0.1", 0), handler(site)) as server:
        site.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield site
        server.shutdown()
        thread.join()
