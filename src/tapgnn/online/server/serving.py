"""Running the server: one process, loopback only unless there are tokens, and a clean shutdown.

On SIGTERM and Ctrl-C no new connections are accepted, open requests are answered (a batch for which there is no time
left with 503), the engine writes its last checkpoint, and the process exits with code 0. SIGHUP reloads what can be
reloaded: the tokens.
"""

from __future__ import annotations

import signal
import socket
import sys
import threading
from collections.abc import Callable
from typing import Any

import uvicorn

from tapgnn.errors import ConfigError
from tapgnn.model import Config
from tapgnn.online.server.app import make_app
from tapgnn.online.server.http_protocol import LINGERING, limited_protocol
from tapgnn.online.server.middleware import is_loopback
from tapgnn.online.server.service import Service

# Seconds for which a stop waits for open requests; the queue has refused what is left in it by then.
GRACE_SECONDS = 7
# Files that are open besides connections.
OTHER_FILES = 200


def check_address(host: str, secured: bool) -> None:
    """Refuse to listen beyond this machine without tokens."""
    if not secured and not is_loopback(host):
        raise ConfigError(
            f"{host} can be reached from other machines, and there are no tokens; make one with 'tapgnn token new "
            "--scope write --file tokens.json' and pass --tokens tokens.json, or listen on 127.0.0.1"
        )


class _Server(uvicorn.Server):
    """Tells the service of a stop before it waits for open requests, which may wait for the service."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop."""
        self._service.stop()
        await super().shutdown(sockets)


def make_server(service: Service, config: Config) -> uvicorn.Server:
    """A server that is not yet started; it stops when the service fails."""
    limits, metrics = service.settings.limits, service.metrics
    settings = uvicorn.Config(
        make_app(service, config),
        http=limited_protocol(limits, metrics.add_refusal),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        timeout_keep_alive=limits.idle_seconds,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(settings, service)
    service.on_failure = lambda: setattr(server, "should_exit", True)
    return server


def run(
    service: Service,
    config: Config,
    host: str = "127.0.0.1",
    port: int = 8000,
    announce: Callable[[str], None] = print,
    reload: Callable[[], None] = lambda: None,
) -> None:
    """Serve until told to stop; `reload` is called on SIGHUP.

    Raises what stopped the service, such as a journal or a source that failed.
    """
    check_address(host, service.settings.tokens is not None)
    # Reader and writer threads share the interpreter; a query must not wait long for the writer.
    sys.setswitchinterval(0.0005)
    allow_open_files(service.settings.limits.connections + LINGERING + OTHER_FILES)
    server, listening = make_server(service, config), listen(host, port)

    def nothing(*_: Any) -> None:
        """Ignore the signal, which uvicorn raises again when it has stopped."""

    def again(*_: Any) -> None:
        # In a thread, because the signal may have come in the middle of a line of the log.
        threading.Thread(target=reload, name="tapgnn-reload").start()

    handlers: dict[int, Callable[..., None]] = {signal.SIGTERM: nothing, signal.SIGINT: nothing}
    if hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = again
    before = {kind: signal.signal(kind, handler) for kind, handler in handlers.items()}
    announce(address(listening))
    try:
        server.run(sockets=[listening])
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler)
        listening.close()
    if service.failure is not None:
        raise service.failure


def allow_open_files(count: int) -> None:
    """Let this process have so many files open, each connection is one, as far as it may raise its own limit."""
    try:
        import resource
    except ImportError:
        # Windows has no such limit.
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def address(listening: socket.socket) -> str:
    """The URL of a bound socket."""
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def listen(host: str, port: int) -> socket.socket:
    """A bound socket, so that a port in use is an error before anything starts."""
    try:
        family, *_, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        both = family == socket.AF_INET6 and socket.has_dualstack_ipv6()
        # It listens already: from here on clients wait for the server instead of being refused.
        return socket.create_server(place, family=family, backlog=1_024, dualstack_ipv6=both)
    except (OSError, OverflowError) as error:
        # `create_server` repeats the address in its message.
        reason = (getattr(error, "strerror", None) or str(error)).partition(" (while ")[0]
        raise ConfigError(f"cannot listen on {host} port {port} ({reason}); pass --host and --port") from None
