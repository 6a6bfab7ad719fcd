"""The MCP conformance suite against ``hilum mcp serve``: ``python tests/benchmarks/conformance_server.py [--packages DIR]``.

The program itself is started, with the tools of ``tests/conformance/server.py`` as a plugin. The suite knows of no token, so a
relay between the two puts it into each request and changes nothing else. Without ``--packages`` the suite and a Node that is
new enough for it are installed from the npm registry into a temporary folder (about 240 MB).

Scenarios that need what hilum does not have (audio, forms and samples of a tool's own, log messages, tasks) are told as such.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import SHUT_WR, create_connection, socket
from socketserver import StreamRequestHandler, ThreadingTCPServer

PACKAGES = ("node@22", "@modelcontextprotocol/conformance@0.1.16")
TOOLS = Path(__file__).resolve().parents[1] / "conformance" / "server.py"
TOKEN = "conformance-conformance"
PROGRAM = [sys.executable, "-c", "from hilum.__main__ import main; raise SystemExit(main())", "mcp", "serve"]


class Relay(ThreadingTCPServer):
    """Passes requests on with the token, each in a connection of its own."""

    daemon_threads = True
    server_port = 0


class Handler(StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Put the token behind the first line of the head, and pass all else on."""
        first = self.rfile.readline()
        with create_connection(("127.0.0.1", self.server.server_port)) as behind:
            behind.sendall(first + f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n".encode())
            sending = threading.Thread(target=pour, args=(self.rfile, behind), daemon=True)
            sending.start()
            while data := behind.recv(1 << 16):
                self.wfile.write(data)


def pour(request: object, behind: socket) -> None:
    """Pass the rest of a request on."""
    head = True
    try:
        while data := request.readline() if head else request.read1(1 << 16):
            if head and data.lower().startswith(b"connection:"):
                continue
            head = head and data != b"\r\n"
            behind.sendall(data)
        behind.shutdown(SHUT_WR)
    except OSError:
        pass


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """Start ``hilum mcp serve`` and the relay; gives the address."""
    package = folder / "conformance_tools-1.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: conformance-tools\nVersion: 1\n")
    (package / "entry_points.txt").write_text("[hilum]\nconformance_tools = conformance_tools\n")
    shutil.copy(TOOLS, folder / "conformance_tools.py")
    work = folder / "work"
    work.mkdir()
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HILUM_", "XDG_"))}
    environ |= {"HILUM_CONFIG": str(folder / "config"), "HILUM_DATA": str(folder / "data"), "HOME": str(folder)}
    environ |= {"PYTHONPATH": str(folder), "HILUM_MCP_TOKEN": TOKEN}
    with Relay(("127.0.0.1", 0), Handler) as relay:
        name = f"127.0.0.1:{relay.server_address[1]}"
        command = [*PROGRAM, "--http", "--allow-host", name, "-C", str(work)]
        with subprocess.Popen(command, env=environ, stdout=subprocess.PIPE, text=True) as program:
            try:
                line = program.stdout.readline()
                relay.server_port = int(re.search(r":(\d+)/mcp", line)[1])
                threading.Thread(target=relay.serve_forever, daemon=True).start()
                yield f"http://{name}/mcp"
                relay.shutdown()
            finally:
                program.terminate()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name, served(Path(name)) as url:
        print(url)
        if len(sys.argv) > 1:
            subprocess.run([*sys.argv[1:2], *sys.argv[2:], "--url", url])
        else:
            input()
