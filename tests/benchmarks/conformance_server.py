"""The MCP conformance suite against ``hilum mcp serve``.

Run it with ``python tests/benchmarks/conformance_server.py [--packages DIR]``.

The program itself is started, with the tools of ``tests/conformance/server.py`` as a plugin. The
suite knows of no token, so a relay between the two puts it into each request and changes nothing
else. Without ``--packages`` the suite and a Node that is new enough for it are installed from the
npm registry into a temporary folder (about 240 MB).

Scenarios that need what hilum does not have (audio, forms and samples of a tool's own, log
messages, tasks) are told as such.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from socket import SHUT_WR, create_connection, socket
from socketserver import StreamRequestHandler, ThreadingTCPServer

PACKAGES = ("node@22", "@modelcontextprotocol/conformance@0.1.16")
TOOLS = Path(__file__).resolve().parents[1] / "conformance" / "server.py"
TOKEN = "conformance-conformance"
PROGRAM = [
    sys.executable,
    "-c",
    "from hilum.__main__ import main; raise SystemExit(main())",
    "mcp",
    "serve",
]

PARTS = "hilum's tools give text and images"
FORMS = "hilum asks for approvals only, with a form of its own"
FIXED = "sessions are the only resources"
MODEL = "the client's model is not asked"
LOG = "no log messages are sent"
ASKS = "no tool needs it"
# Scenarios, and single checks, that need what hilum does not have.
NOT_OURS = {
    "tools-call-audio": PARTS,
    "tools-call-embedded-resource": PARTS,
    "tools-call-mixed-content": PARTS,
    "logging-set-level": LOG,
    "tools-call-with-logging": LOG,
    "tools-call-sampling": MODEL,
    "input-required-result-basic-sampling": MODEL,
    "input-required-result-capability-check": MODEL,
    "input-required-result-basic-list-roots": "the client's roots are not asked for",
    "server-sse-polling": "streams are not closed early",
    "elicitation-sep1034-defaults": FORMS,
    "elicitation-sep1330-enums": FORMS,
    "input-required-result-multi-round": FORMS,
    "input-required-result-multiple-input-requests": FORMS,
    "input-required-result-basic-elicitation": FORMS,
    "resources-read-text": FIXED,
    "resources-read-binary": FIXED,
    "resources-templates-read": FIXED,
    "prompts-get-with-args": "a skill takes a task, and no arguments of its own",
    "prompts-get-embedded-resource": "skills are text",
    "prompts-get-with-image": "skills are text",
    "input-required-result-non-tool-request": "skills need no approval",
    "sep-2575-server-rejects-undeclared-capability": ASKS,
    "sep-2575-missing-capability-http-400": ASKS,
}


class Relay(ThreadingTCPServer):
    """Passes requests on with the token, each in a connection of its own."""

    daemon_threads = True
    server_port = 0


class Handler(StreamRequestHandler):
    """One connection."""

    def handle(self) -> None:
        """Put the token behind the first line of the head, and pass all else on."""
        assert isinstance(self.server, Relay)
        first = self.rfile.readline()
        with create_connection(("127.0.0.1", self.server.server_port)) as behind:
            behind.sendall(
                first + f"Authorization: Bearer {TOKEN}\r\nConnection: close\r\n".encode()
            )
            sending = threading.Thread(target=pour, args=(self.rfile, behind), daemon=True)
            sending.start()
            try:
                while data := behind.recv(1 << 16):
                    self.wfile.write(data)
            except OSError:  # the suite has heard enough
                pass


def pour(request: BufferedIOBase, behind: socket) -> None:
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
    (package / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: conformance-tools\nVersion: 1\n"
    )
    (package / "entry_points.txt").write_text("[hilum]\nconformance_tools = conformance_tools\n")
    shutil.copy(TOOLS, folder / "conformance_tools.py")
    skill = folder / "config" / "skills" / "test_simple_prompt"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(
        "---\nname: test_simple_prompt\ndescription: A prompt.\n---\nA simple prompt.\n"
    )
    work = folder / "work"
    work.mkdir()
    environ = {
        name: value for name, value in os.environ.items() if not name.startswith(("HILUM_", "XDG_"))
    }
    environ |= {
        "HILUM_CONFIG": str(folder / "config"),
        "HILUM_DATA": str(folder / "data"),
        "HOME": str(folder),
    }
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


def main() -> int:
    """Run the scenarios and print a table; gives 1 where one that applies fails."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--packages", type=Path, help="a folder in which the npm packages are installed"
    )
    parser.add_argument("--spec-version", help="of the protocol, where the suite knows several")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, out = Path(name), Path(name) / "out"
        if not options.packages:
            subprocess.run(["npm", "install", "--silent", "--prefix", name, *PACKAGES], check=True)
        packages = (options.packages or folder).absolute() / "node_modules"
        suite = [
            packages / ".bin/node",
            packages / "@modelcontextprotocol/conformance/dist/index.js",
            "server",
        ]
        suite += ["--suite", "all", "-o", out]
        if options.spec_version:
            suite += ["--spec-version", options.spec_version]
        with served(folder) as url:
            subprocess.run([*suite, "--url", url], capture_output=True, check=False)
        results = {
            re.sub(r"^server-|-\d{4}-\d\d-\d\dT.*$", "", file.parent.name): json.loads(
                file.read_text()
            )
            for file in sorted(out.rglob("checks.json"))
        }
    bad = passed = applied = 0
    for scenario, checks in results.items():
        wrong = [
            check
            for check in checks
            if check["status"] == "FAILURE" and check["id"] not in NOT_OURS
        ]
        good = sum(check["status"] == "SUCCESS" for check in checks)
        why = NOT_OURS.get(scenario, "")
        if not why:
            applied, passed, bad = applied + 1, passed + good, bad + bool(wrong)
        print(f"{'-' if why else '✗' if wrong else '✓'} {scenario:50} {good:3} passed  {why}")
        for check in wrong if not why else ():
            print(f"    {check['id']}: {check.get('errorMessage', '')[:300]}")
    print(
        f"{applied - bad} of {applied} scenarios that apply, {passed} checks passed; {len(results) - applied} do not apply"
    )
    return 1 if bad or not applied else 0


if __name__ == "__main__":
    sys.exit(main())
