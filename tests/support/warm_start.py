"""Starts ``hilum`` processes quickly by forking them from a process that has imported hilum.

A short ``hilum`` command spends most of its processor time importing modules. A test that starts
the program, but does not test how it starts, can start it through :class:`WarmStarter`. The result
is still a separate process with its own environment, working directory, terminal and signals.

Run as a script, this file is the server that forks. It serves one client, over the socket that it
receives as standard input.
"""

import array
import atexit
import contextlib
import fcntl
import gc
import importlib
import importlib.util
import json
import os
import pkgutil
import select
import signal
import socket
import subprocess
import sys
import tempfile
import termios
import threading
from collections.abc import Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NoReturn

import attrs
import trio

# More would not fit into one message of the socket once JSON has escaped it.
MAX_ARGUMENTS = 10_000
MAX_REQUEST = 200_000
# Prefixes of variables that the interpreter reads before any code runs. A forked process would
# ignore them.
_READ_AT_START = ("PYTHON", "LANG", "LC_", "LD_")
# Distributions that have no package of this name, or that hilum's commands do not use.
_NOT_IMPORTED = {"hilum_core", "hilum_replay", "hilum_template"}


# A program that makes its standard input the controlling terminal and executes another program.
OWN_TERMINAL = (
    "import fcntl, os, sys, termios; fcntl.ioctl(0, termios.TIOCSCTTY, 0);"
    " os.execv(sys.argv[1], sys.argv[1:])"
)


def python_environment() -> dict[str, str]:
    """Return the environment of ``hilum`` in tests, without the variables for its folders."""
    kept = ("PATH", "LANG", "LC_ALL", "PYTHONPATH", "TMPDIR")
    env = {name: value for name, value in os.environ.items() if name in kept}
    return env | {"PYTHONWARNINGS": "error", "PYTHONUTF8": "1"}


class WarmProcess:
    """A forked ``hilum`` process, with the methods of ``trio.Process`` that tests use."""

    def __init__(self, control: socket.socket, pid: int) -> None:
        self.pid = pid
        self.stdout: trio.lowlevel.FdStream | None = None
        self.stderr: trio.lowlevel.FdStream | None = None
        self._control = control
        self._status: int | None = None

    @property
    def returncode(self) -> int | None:
        """The exit code, which is negative for a signal; ``None`` while the process is running."""
        if self._status is None:
            with contextlib.suppress(BlockingIOError):
                self._read_status()
        return self._status

    async def wait(self) -> int:
        """Wait for the process to end, and return its exit code."""
        while self.returncode is None:
            await trio.lowlevel.wait_readable(self._control)
        assert self._status is not None
        return self._status

    def send_signal(self, number: int) -> None:
        """Send a signal, unless the process has ended."""
        if self.returncode is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Send SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def __del__(self) -> None:
        # A test that killed the process need not wait for it, so nothing else closes the socket.
        self._control.close()

    def _read_status(self) -> None:
        data = self._control.recv(64)
        if not data:
            raise RuntimeError("the server that forks hilum processes has exited")
        self._status = int(data)
        self._control.close()


@attrs.frozen
class CompletedProcess:
    """A process that has ended: its exit code and its output."""

    code: int
    out: str
    err: str

    @property
    def result(self) -> dict[str, Any]:
        """The object written by ``--output-format json``."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The objects written by ``--output-format stream-json``."""
        return [json.loads(line) for line in self.out.splitlines()]


async def _communicate(data: bytes, stdin: int, stdout: int, stderr: int) -> tuple[str, str]:
    """Write all input of a process, and read both of its outputs to the end."""
    outputs: dict[int, bytes] = {}

    async def write() -> None:
        async with trio.lowlevel.FdStream(stdin) as stream:
            # A process need not read its input.
            with contextlib.suppress(trio.BrokenResourceError):
                await stream.send_all(data)

    async def read(descriptor: int) -> None:
        async with trio.lowlevel.FdStream(descriptor) as stream:
            outputs[descriptor] = b"".join([piece async for piece in stream])

    async with trio.open_nursery() as nursery:
        nursery.start_soon(write)
        nursery.start_soon(read, stdout)
        nursery.start_soon(read, stderr)
    return outputs[stdout].decode(), outputs[stderr].decode()


class WarmStarter:
    """The owner of the server, which runs while this context manager is open.

    Args:
        env: The server's environment. A process can be forked only if its environment has the same
            values for the variables that the interpreter reads when it starts.
    """

    def __init__(self, env: dict[str, str]) -> None:
        self._env = env

    def __enter__(self) -> "WarmStarter":
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._server = subprocess.Popen([sys.executable, __file__], stdin=theirs, env=self._env)
        # Wait for the imports here, so that no test has to.
        assert self._socket.recv(16) == b"ready"
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()
        self._server.wait()

    async def run(
        self,
        arguments: Sequence[str | bytes],
        *,
        cwd: Path,
        env: dict[str, str],
        stdin: bytes = b"",
    ) -> CompletedProcess:
        """Run ``hilum`` until it exits. See :meth:`open` for the arguments."""
        reading, writing = os.pipe()
        output, output_end = os.pipe()
        errors, errors_end = os.pipe()
        process = await self.open(
            arguments, cwd=cwd, env=env, stdin=reading, stdout=output_end, stderr=errors_end
        )
        for descriptor in (reading, output_end, errors_end):
            os.close(descriptor)
        try:
            out, err = await _communicate(stdin, writing, output, errors)
            code = await process.wait()
        finally:
            process.kill()
        return CompletedProcess(code, out, err)

    async def open(
        self,
        arguments: Sequence[str | bytes],
        *,
        cwd: Path,
        env: dict[str, str],
        stdin: int,
        stdout: int,
        stderr: int,
        own_terminal: bool = False,
    ) -> trio.Process | WarmProcess:
        """Start ``hilum``, with a fork unless the process would behave differently.

        Args:
            arguments: The command-line arguments after ``hilum``.
            cwd: The working directory.
            env: The complete environment.
            stdin: Descriptor of standard input. The caller closes all three descriptors.
            stdout: Descriptor of standard output.
            stderr: Descriptor of standard error.
            own_terminal: Whether to start a new session with ``stdin`` as its controlling terminal.
        """
        if self._can_fork(arguments, env):
            return self._fork(arguments, cwd, env, (stdin, stdout, stderr), own_terminal)
        argv: list[str | bytes] = [sys.executable, "-m", "hilum", *arguments]
        if own_terminal:
            argv = [sys.executable, "-c", OWN_TERMINAL, *argv]
        return await trio.lowlevel.open_process(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            start_new_session=own_terminal,
            cwd=cwd,
            env=env,
        )

    def _can_fork(self, arguments: Sequence[str | bytes], env: dict[str, str]) -> bool:
        """Return whether a forked process would behave like a newly started one."""
        if sum(map(len, arguments)) > MAX_ARGUMENTS:
            return False
        names = {name for name in (*env, *self._env) if name.startswith(_READ_AT_START)}
        names.discard("PYTHONPATH")
        is_same = all(env.get(name) == self._env.get(name) for name in names)
        return is_same and not any(map(_hides_modules, _added_folders(env, self._env)))

    def _fork(
        self,
        arguments: Sequence[str | bytes],
        cwd: Path,
        env: dict[str, str],
        streams: tuple[int, int, int],
        own_terminal: bool,
    ) -> WarmProcess:
        ours, theirs = socket.socketpair()
        request = {
            "arguments": [os.fsdecode(argument) for argument in arguments],
            "cwd": os.fsdecode(cwd),
            "env": env,
            "own_terminal": own_terminal,
            "added_folders": _added_folders(env, self._env),
        }
        descriptors = array.array("i", [*streams, theirs.fileno()])
        with theirs:
            self._socket.sendmsg(
                [json.dumps(request).encode()],
                [(socket.SOL_SOCKET, socket.SCM_RIGHTS, descriptors)],
            )
        pid = int.from_bytes(ours.recv(8, socket.MSG_WAITALL), "big")
        ours.setblocking(False)
        return WarmProcess(ours, pid)


def _added_folders(env: dict[str, str], base: dict[str, str]) -> list[str]:
    """Return the folders in ``PYTHONPATH`` that are not in that of the server."""
    folders = env.get("PYTHONPATH", "").split(os.pathsep)
    known = base.get("PYTHONPATH", "").split(os.pathsep)
    return [folder for folder in folders if folder and folder not in known]


def _hides_modules(folder: str) -> bool:
    """Return whether a folder has a module that would replace one that the server can import."""
    for path in Path(folder).iterdir():
        name = path.name.partition(".")[0]
        is_read_at_start = name in ("sitecustomize", "usercustomize")
        if is_read_at_start or (name.isidentifier() and importlib.util.find_spec(name)):
            return True
    return False


def _serve(client: socket.socket) -> dict[str, Any]:
    """Serve requests; return only in a forked process, with its request.

    The server forks a process for each request and reports each exit code to the client. It never
    returns from this function: it exits when the client closes the connection.
    """
    wake, wake_end = os.pipe()
    os.set_blocking(wake_end, False)
    signal.set_wakeup_fd(wake_end)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    client.send(b"ready")
    running: dict[int, socket.socket] = {}
    while True:
        readable, _, _ = select.select([client, wake], [], [])
        if wake in readable:
            os.read(wake, 4096)
            _report_ends(running)
        if client not in readable:
            continue
        data, descriptors, *_ = socket.recv_fds(client, MAX_REQUEST, 4)
        if not data:
            os._exit(0)
        control = socket.socket(fileno=descriptors[3])
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            for inherited in (client, control, *running.values()):
                inherited.detach()
            request = json.loads(data)
            _take_over(request, descriptors[:3])
            return request
        for descriptor in descriptors[:3]:
            os.close(descriptor)
        control.sendall(pid.to_bytes(8, "big"))
        running[pid] = control


def _report_ends(running: dict[int, socket.socket]) -> None:
    """Report the exit codes of all processes that have ended."""
    while running:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        with running.pop(pid) as control, contextlib.suppress(OSError):
            control.sendall(str(os.waitstatus_to_exitcode(status)).encode())


def _take_over(request: dict[str, Any], descriptors: list[int]) -> None:
    """Give the forked process what the request specifies, as if it had just been started."""
    if request["own_terminal"]:
        os.setsid()
        fcntl.ioctl(descriptors[0], termios.TIOCSCTTY, 0)
    for target, descriptor in enumerate(descriptors):
        os.dup2(descriptor, target)
    for descriptor in map(int, os.listdir("/dev/fd")):
        if descriptor > 2:
            # The list contains the descriptor with which it was read, which is closed already.
            with contextlib.suppress(OSError):
                os.close(descriptor)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    # The server may have looked for its own folder of temporary files.
    tempfile.tempdir = None
    sys.argv[1:] = request["arguments"]
    sys.path[:0] = [request["cwd"], *request["added_folders"]]
    importlib.invalidate_caches()
    sys.stdin = open(0, encoding="utf-8", errors="surrogateescape", closefd=False)  # noqa: SIM115
    sys.stdout = _open_output(1, "surrogateescape")
    sys.stderr = _open_output(2, "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr


def _open_output(descriptor: int, errors: str) -> Any:
    """Open an output stream as the interpreter does: line-buffered for terminals and errors."""
    by_line = descriptor == 2 or os.isatty(descriptor)
    return open(
        descriptor,
        "w",
        buffering=1 if by_line else -1,
        encoding="utf-8",
        errors=errors,
        closefd=False,
    )


def _import_hilum() -> None:
    """Import the modules of hilum's packages, and thereby the libraries that they use."""
    names = [distribution.metadata["Name"] for distribution in distributions()]
    packages = [name.replace("-", "_") for name in names if name.startswith("hilum-")]
    for name in sorted({"hilum", *packages} - _NOT_IMPORTED):
        package = importlib.import_module(name)
        # Few tests need what these import (Playwright, SciPy and the MCP SDK), which takes seconds,
        # and makes each fork slower.
        if name in ("hilum_browser", "hilum_eval", "hilum_mcp"):
            continue
        for module in pkgutil.walk_packages(package.__path__, f"{name}."):
            if not any(part in module.name for part in ("testing", "demo_project", "__main__")):
                importlib.import_module(module.name)
    importlib.import_module("hilum.__main__")


def _main() -> NoReturn:
    """Import hilum, serve requests, and run hilum in each forked process."""
    # While `python -m hilum` imports the package, `sys.argv` begins with "-m".
    sys.argv[:] = ["-m"]
    # The modules in this script's folder are not part of the program.
    sys.path.pop(0)
    _import_hilum()
    gc.collect()
    # Otherwise, the collector would write to, and thereby copy, every shared page of memory.
    gc.freeze()
    _serve(socket.socket(fileno=os.dup(0)))
    from hilum.__main__ import main  # at the top, every test would import it

    _exit(main())


def _exit(code: int) -> NoReturn:
    """Exit as the interpreter does, but without destroying all modules, which copies all memory."""
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
    except OSError:
        code = 120
    os._exit(code)


if __name__ == "__main__":
    _main()
