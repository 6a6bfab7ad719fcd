"""Repositories made with a real git, and servers that give them."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from skill_repositories import Repository, skill_text


@pytest.fixture(scope="session")
def committed(tmp_path_factory):
    """A repository with two skills, which the tests copy: each commit takes three processes."""
    repo = Repository(tmp_path_factory.mktemp("committed") / "origin")
    repo.commit(
        {
            "README.md": "# Skills\n\nA collection of skills.\n",
            "skills/pdf/SKILL.md": skill_text(
                "pdf", "Reads PDF files. Use for PDFs.", "Run scripts/read.py first."
            ),
            "skills/pdf/scripts/read.py": "print('read')\n",
            "skills/pdf/references/forms.md": "Forms are hard.\n",
            "skills/docx/SKILL.md": skill_text("docx", "Writes Word files."),
            "src/big.txt": "not a skill",
        }
    )
    return repo


@pytest.fixture
def repository(tmp_path, committed):
    return committed.copy(tmp_path / "origin")


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A home folder of nobody: no configuration of git, no skills."""
    path = tmp_path / "home"
    path.mkdir()
    for name in [name for name in os.environ if name.startswith(("GIT_", "HILUM_", "XDG_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(path))
    return path


def serve(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def smart_http(tmp_path):
    """A server that runs ``git http-backend`` over what is below ``tmp_path``.

    Paths below /private want a password.
    """
    backend = (
        subprocess.run(["git", "--exec-path"], capture_output=True, text=True).stdout.strip()
        + "/git-http-backend"
    )
    if not os.path.exists(backend):
        pytest.skip("git http-backend is not installed")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path, _, query = self.path.partition("?")
            if path.startswith("/private"):
                self.send_response(401)
                self.send_header("WWW-Authenticate", 'Basic realm="x"')
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            env = {**os.environ, "GIT_PROJECT_ROOT": str(tmp_path), "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
                   "QUERY_STRING": query, "REQUEST_METHOD": self.command, "CONTENT_TYPE": self.headers.get("Content-Type", ""),
                   "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "CONTENT_LENGTH": str(len(body)),
                   "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""), "REMOTE_ADDR": "127.0.0.1"}  # fmt: skip
            done = subprocess.run([backend], input=body, env=env, capture_output=True)
            head, _, content = done.stdout.partition(b"\r\n\r\n")
            fields = [line.partition(": ") for line in head.decode().split("\r\n")]
            status = next((value for name, _, value in fields if name == "Status"), "200 OK")
            self.send_response(int(status.split()[0]))
            for name, _, value in fields:
                if name != "Status":
                    self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        do_POST = do_GET

        def log_message(self, *_: object) -> None:
            pass

    yield from serve(Handler)


@pytest.fixture
def dumb_http(tmp_path):
    """A server of plain files."""

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *arguments: object) -> None:
            super().__init__(*arguments, directory=str(tmp_path))  # type: ignore[arg-type]

        def log_message(self, *_: object) -> None:
            pass

    yield from serve(Handler)
