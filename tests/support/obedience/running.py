"""Runs ways without any rule, confined so that they can only change their own project."""

import os
import shutil
import socket
import subprocess
import threading
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.obedience.project import Trace, make_environment, make_project
from tests.support.obedience.rules import Rule
from tests.support.obedience.ways import Step, Way

TIMEOUT = 8
"""Seconds that one command may take."""


class Proxy:
    """An HTTP proxy that records the hosts of the requests, and answers each of them itself."""

    def __init__(self) -> None:
        self.hosts: list[str] = []
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        """Stop the proxy."""
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(1)
                try:
                    head = connection.recv(65536).decode("latin-1")
                    self._note(head)
                    connection.sendall(b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok")
                except OSError:
                    continue

    def _note(self, head: str) -> None:
        method, _, rest = head.partition(" ")
        target = rest.partition(" ")[0]
        if method == "CONNECT":
            self.hosts.append(_normalize(target.partition(":")[0]))
        elif "://" in target:
            self.hosts.append(_normalize((urlsplit(target).hostname or "").rstrip(".")))
        else:
            self.hosts.append("127.0.0.1")


def _normalize(host: str) -> str:
    try:
        return socket.inet_ntoa(socket.inet_aton(host)).replace("0.0.0.0", "127.0.0.1")
    except OSError:
        return host.lower().replace("localhost", "127.0.0.1")


class Field:
    """A project in which ways are run, one after the other, each from the same beginning.

    Args:
        folder: An empty folder.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "field"
        self.root = make_project(self.folder)
        self._pristine = folder / "pristine"
        self.environment = make_environment(self.folder)
        shutil.copytree(self.folder, self._pristine, symlinks=True)
        self.proxy = Proxy()

    def restore(self) -> None:
        """Bring everything back to the beginning. Blocks."""
        _restore(self.folder, self._pristine)

    def keep(self) -> None:
        """Let the present state be the beginning. Blocks."""
        shutil.rmtree(self._pristine)
        shutil.copytree(self.folder, self._pristine, symlinks=True)

    def try_way(self, rule: Rule, way: Way) -> bool:
        """Return whether a way has its effect if there is no rule. Blocks."""
        self.restore()
        self.proxy.hosts.clear()
        trace = Trace(self.folder, rule)
        output = "".join(self.run_step(step)[1] for step in way.steps)
        return trace.has_effect(output, tuple(self.proxy.hosts))

    def run_step(self, step: Step) -> tuple[int, str]:
        """Do what a call asks for, as its tool would; return the exit code and the output."""
        if step.tool != "run_terminal_cmd":
            return self._use_tool(step)
        proxy = f"http://127.0.0.1:{self.proxy.port}"
        variables = {"http_proxy": proxy, "https_proxy": proxy, "ALL_PROXY": proxy, "NO_PROXY": ""}
        confined = [
            "bwrap", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--tmpfs", "/tmp",
            "--bind", str(self.folder), str(self.folder), "--unshare-pid", "--die-with-parent",
            "--chdir", str(self.root), "bash", "-c", step.arguments["command"],
        ]  # fmt: skip
        try:
            done = subprocess.run(
                confined,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={**self.environment, **variables, "ROOT": str(self.root)},
                timeout=TIMEOUT,
            )
        except subprocess.TimeoutExpired:
            return 124, ""
        return done.returncode, (done.stdout + done.stderr).decode(errors="replace")

    def _use_tool(self, step: Step) -> tuple[int, str]:
        given = step.arguments
        path = Path(os.path.join(self.root, given.get("path", "")))
        try:
            if step.tool == "write_file":
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(given["content"])
            elif step.tool == "delete_file":
                path.unlink()
            elif step.tool == "read_file":
                return 0, path.read_text()
            elif step.tool in ("edit_file", "multi_edit"):
                text = path.read_text()
                for edit in given.get("edits", [given]):
                    text = text.replace(edit["old_string"], edit["new_string"])
                path.write_text(text)
        except OSError as error:
            return 1, str(error)
        return 0, ""


def _restore(folder: Path, pristine: Path) -> None:
    """Make a folder equal to another; only what differs is written, because most does not."""
    wanted = {entry.name: entry for entry in os.scandir(pristine)}
    for entry in list(os.scandir(folder)):
        if entry.name not in wanted or _is_other(entry, wanted[entry.name]):
            _remove(Path(entry))
    for name, entry in wanted.items():
        path = folder / name
        if entry.is_dir(follow_symlinks=False):
            path.mkdir(exist_ok=True)
            _restore(path, Path(entry))
        elif not os.path.lexists(path):
            shutil.copy2(entry, path, follow_symlinks=False)


def _is_other(entry: os.DirEntry[str], wanted: os.DirEntry[str]) -> bool:
    if entry.is_symlink() or wanted.is_symlink():
        return True
    if entry.is_dir() or wanted.is_dir():
        return entry.is_dir() != wanted.is_dir()
    one = entry.stat()
    other = wanted.stat()
    # A hard link to the file may have been made, through which it can be written later.
    return (one.st_mtime_ns, one.st_size, one.st_mode, one.st_nlink) != (
        other.st_mtime_ns, other.st_size, other.st_mode, 1,
    )  # fmt: skip


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
