"""Serves the package index of this project on loopback while a command runs.

    python tools/index.py pip install NAME

The index has the packages of tools/packages. It answers only as long as the command runs.
"""

import base64
import ensurepip
import hashlib
import importlib.util
import io
import os
import subprocess
import sys
import sysconfig
import threading
import zipfile
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PACKAGES = Path(__file__).parent / "packages"
EPOCH = (1980, 1, 1, 0, 0, 0)


def build_wheel(source):
    """Return the file name and the content of the wheel of a module."""
    name, _, version = source.stem.rpartition("-")
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    files = {
        f"{module}.py": source.read_bytes(),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: index\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = []
    for path, content in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        lines.append(f"{path},sha256={digest},{len(content)}\n")
    files[f"{info}/RECORD"] = ("".join(lines) + f"{info}/RECORD,,\n").encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, content in files.items():
            archive.writestr(zipfile.ZipInfo(path, EPOCH), content)
    return f"{module}-{version}-py3-none-any.whl", buffer.getvalue()


WHEELS = {}
PROJECTS = {}
for _source in sorted(PACKAGES.glob("*.py")):
    _file, _content = build_wheel(_source)
    WHEELS[_file] = _content
    PROJECTS.setdefault(_source.stem.rpartition("-")[0], []).append(_file)


class Index(BaseHTTPRequestHandler):
    """Answers as the simple repository API describes."""

    protocol_version = "HTTP/1.1"

    def do_GET(self):
        parts = self.path.strip("/").split("/")
        if parts[0] == "files" and parts[-1] in WHEELS:
            self.reply(200, WHEELS[parts[-1]], "application/octet-stream")
        elif parts[0] == "simple" and len(parts) == 2 and parts[1] in PROJECTS:
            links = "".join(f'<a href="/files/{each}">{each}</a>\n' for each in PROJECTS[parts[1]])
            self.reply(200, f"<!DOCTYPE html><html><body>\n{links}</body></html>".encode(), "text/html")
        else:
            self.reply(404, b"not found", "text/plain")

    def reply(self, status, body, kind):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args):
        pass


def find_pip():
    """Return the command of pip: that of this environment, or the one that Python brings along."""
    if importlib.util.find_spec("pip"):
        return [sys.executable, "-m", "pip"]
    folders = [Path(ensurepip.__file__).parent / "_bundled"]
    if sysconfig.get_config_var("WHEEL_PKG_DIR"):
        folders.append(Path(sysconfig.get_config_var("WHEEL_PKG_DIR")))
    for folder in folders:
        for wheel in sorted(folder.glob("pip-*.whl")):
            return [sys.executable, str(wheel / "pip")]
    sys.exit("This Python has no pip; install it (Debian: python3-venv).")


def main():
    command = sys.argv[1:]
    if not command:
        sys.exit(__doc__)
    if command[0] in ("pip", "pip3"):
        command = [*find_pip(), *command[1:]]
    server = ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    environ = dict(os.environ)
    for name in ("PIP_EXTRA_INDEX_URL", "PIP_FIND_LINKS", "PIP_TARGET", "PIP_CONSTRAINT"):
        environ.pop(name, None)
    environ["PIP_CONFIG_FILE"] = os.devnull
    environ["PIP_INDEX_URL"] = f"http://127.0.0.1:{server.server_address[1]}/simple/"
    environ["PIP_DISABLE_PIP_VERSION_CHECK"] = "1"
    environ["NO_PROXY"] = environ["no_proxy"] = "127.0.0.1"
    sys.exit(subprocess.run(command, env=environ).returncode)


if __name__ == "__main__":
    main()
