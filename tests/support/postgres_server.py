"""A PostgreSQL server of a test's own: in a temporary folder, on a socket and a port of its own."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

MISSING = "PostgreSQL is not installed (Debian: apt-get install postgresql)"


def find_programs() -> Path | None:
    """Return the folder of the newest PostgreSQL; ``None`` if there is none."""
    on_path = shutil.which("postgres")
    if on_path and shutil.which("initdb"):
        return Path(on_path).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/postgres")
    newest = max(found, key=lambda path: float(path.parts[-3]), default=None)
    return newest.parent if newest else None


class PostgresServer:
    """A server that tests may start, kill and freeze. ``start`` creates its files."""

    def __init__(self, programs: Path, folder: Path, *, fsync: bool = False) -> None:
        self._programs = programs
        self.folder = folder
        self._fsync = fsync
        self._databases = 0
        self.process: subprocess.Popen[bytes] | None = None
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def _run_as(self) -> dict[str, object]:
        # PostgreSQL refuses to run as root.
        return {"user": 65534, "group": 65534, "extra_groups": []} if os.getuid() == 0 else {}

    def create(self) -> None:
        """Create the files of the server."""
        if os.getuid() == 0:
            os.chown(self.folder, 65534, 65534)
        command = ["initdb", "-D", f"{self.folder}/data", "-U", "hilum", "-A", "trust", "-N"]
        subprocess.run(
            [self._programs / command[0], *command[1:], "--locale=C.UTF-8", "--encoding=UTF8"],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._run_as(),  # type: ignore[call-overload]
        )

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        options = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "on" if self._fsync else "off",
            "max_connections": 100,
            "shared_buffers": "64MB",
        }
        given = [word for name, value in options.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._programs / "postgres", "-D", f"{self.folder}/data", *given],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=log,
                cwd=self.folder,
                **self._run_as(),  # type: ignore[call-overload]
            )
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                if time.monotonic() > deadline or self.process.poll() is not None:
                    raise AssertionError((self.folder / "server.log").read_text()) from None
                time.sleep(0.02)

    def url(self, database: str, *, tcp: bool = True) -> str:
        """Return the URL of a database."""
        host = f"127.0.0.1:{self.port}" if tcp else ""
        rest = "" if tcp else f"?host={self.folder}&port={self.port}"
        return f"postgresql://hilum@{host}/{database}{rest}"

    def make_database(self) -> str:
        """Create an empty database, and return its URL."""
        self._databases += 1
        name = f"test{self._databases}"
        with psycopg.connect(self.url("postgres"), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}".encode())
        return self.url(name)

    def execute(self, url: str, statement: str, *values: object) -> list[tuple[object, ...]]:
        """Execute a statement, and return its rows."""
        with psycopg.connect(url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End the server; by default, at once and with all connections."""
        if self.process is None:
            return
        self.process.send_signal(number)
        self.process.wait(30)
        self.process = None

    def freeze(self) -> None:
        """Stop the server and all its children, so that it accepts connections and never answers."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let a frozen server go on."""
        self._signal_all(signal.SIGCONT)

    def _signal_all(self, number: signal.Signals) -> list[int]:
        """Send a signal to the server and its children, and return the children."""
        assert self.process is not None
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text()
        found = list(map(int, children.split()))
        for pid in (self.process.pid, *found):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        return found

    def kill(self) -> None:
        """Kill the server and all its children, as a loss of power would."""
        children = self._signal_all(signal.SIGKILL)
        assert self.process is not None
        self.process.wait(30)
        self.process = None
        # The next server refuses to start while a child of this one lives.
        for pid in children:
            while (
                Path(f"/proc/{pid}/stat").exists()
                and "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:1]
            ):
                time.sleep(0.01)


@contextmanager
def run_server(*, fsync: bool = False) -> Iterator[PostgresServer]:
    """Run a server as long as the block runs; skip the test if PostgreSQL is not installed."""
    programs = find_programs()
    if programs is None:
        pytest.skip(MISSING)
    folder = Path(tempfile.mkdtemp(prefix="hilum-pg-"))
    server = PostgresServer(programs, folder, fsync=fsync)
    try:
        server.create()
        server.start()
        yield server
    finally:
        if server.process is not None:
            server.thaw()
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server that all tests of a worker share; each uses a database of its own."""
    with run_server() as server:
        yield server
