"""The bubblewrap sandbox: namespaces for files, network, processes and shared memory.

::

    sh (SCRIPT) ──► nsenter, then bwrap ──► sandbox_init.py, process 1 of its namespace ──► command

``nsenter`` joins the session's loopback (see ``loopback``) if it can be shared.

Process 1 gets the command as its arguments or, in a spare sandbox (see ``spares``), later over a
socket.

``sh`` ignores termination signals. Without this, bwrap would kill every process before the command
could clean up. ``sh`` terminates itself with the signal that terminated the command. When every
process in the sandbox has ended, ``sh`` removes the files that must not exist, but only if the
command was started: in a spare sandbox that was never used, nothing can have created them.

Nothing is mounted over a missing path in a writable folder, because bubblewrap would leave an empty
file at that path.
"""

from __future__ import annotations

import functools
import marshal
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import attrs
from hilum import Command

from hilum_guard.file_names import is_below
from hilum_guard.sandbox import control_groups
from hilum_guard.sandbox.loopback import HOLD

if TYPE_CHECKING:
    from hilum_guard.sandbox.sandbox_policy import SandboxPolicy

# The shell reads the errors of bwrap and, after them, the report of sandbox_init.py. The command's
# output goes through descriptor 4, and its errors go through descriptor 6. A file to cover or to
# protect may vanish before bwrap mounts over it, such as one of the user's sockets, or what
# `git clean` removes, and bwrap then fails. In that case, the script tries again without the vanished
# files, up to four times, and only the last attempt's errors are shown: with those of the others, a
# command that ran would seem to have failed. The workspace watcher makes inert what appears at their
# paths.
SCRIPT = """
trap '' TERM INT HUP QUIT
exec 4>&1 6>&2
filter=$1
shift
start() {{
  exec 5<"$filter"
  said=$(exec "$@" 3>&1 2>&1 >&4 4>&-)
  code=$?
  report=${{said##*
}}
  case $report in
    u | b | be | bs[0-9]*) ;;
    *) report= ;;
  esac
}}
start "$@"
tries=1
while [ -z "$report" ] && [ "$code" = 1 ] && [ "$tries" -lt 5 ]; do
  tries=$((tries + 1))
  left=$#
  options=1
  while [ "$left" -gt 0 ]; do
    if [ "$1" = --chdir ]; then options=; fi
    if [ "$options" ] && [ "$left" -gt 2 ] && [ "$1" = --ro-bind ] && [ ! -e "$3" ] &&
       {{ [ "$2" = /dev/null ] || [ "$2" = "$3" ]; }}; then
      shift 3
      left=$((left - 3))
    else
      set -- "$@" "$1"
      shift
      left=$((left - 1))
    fi
  done
  # Even if no file is missing: one may have appeared again.
  start "$@"
done
if [ -z "$report" ] && [ "$said" ]; then printf '%s\\n' "$said" >&2; fi
case $report in
  u) exit 0 ;;
  b*) {clean} ;;
esac
case $report in
  bs*) trap - TERM INT HUP QUIT; ulimit -c 0; kill -"${{report#bs}}" $$ ;;
  be*) ;;
  *) echo "hilum: the sandbox ended before the command did (code $code)." >&2; exit 125 ;;
esac
exit "$code"
"""
ENDED_EARLY = "hilum: the sandbox ended before the command did"
"""What SCRIPT reports if bubblewrap fails."""
_START = (
    "import sys; sys.path.append(sys.argv[1]); import sandbox_init;"
    " sandbox_init.main(*sys.argv[2:])"
)
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# On a very busy machine, starting a program takes seconds.
_TRIAL_TIMEOUT = 15  # seconds
# Tries to write outside the sandbox and to read a hidden file.
_TRIAL = '{ echo x > "$1/written"; read -r found < "$1/hidden"; } 2>/dev/null; echo "ran $found"'
# Root owns these parts of /proc and could write to them even without capabilities.
_KERNEL = ("sys", "sysrq-trigger", "acpi", "bus", "fs", "irq", "mtrr", "scsi")
_KERNEL_PATHS = tuple(f"/proc/{name}" for name in _KERNEL)
# Everything that is not hidden stays readable, so that installed programs work as usual.
_ROOT = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_BASE = (
    "--unshare-user",
    # The command can see and signal only the processes in its sandbox.
    "--unshare-pid",
    # Without this option, System V shared memory and message queues would be shared with other
    # programs.
    "--unshare-ipc",
    "--unshare-uts",
    "--cap-drop",
    "ALL",
    # If the shell that started the sandbox is killed, the sandbox also ends.
    "--die-with-parent",
    # sandbox_init.py reaps the processes itself, so bubblewrap adds no process of its own.
    "--as-pid-1",
)
# /run contains many service sockets. Programs need only these parts of /run: the files for name
# resolution, and the programs of NixOS.
_RUN = (
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
)
_ESCAPES = str.maketrans({each: f"\\{ord(each):03o}" for each in " \t\n\\"})
Mount = tuple[str, ...]
"""One bubblewrap option with its arguments."""


def find_bubblewrap() -> str:
    """Return the path to bubblewrap; empty if it is not installed."""
    # AppArmor lets only the system's own bubblewrap create user namespaces (Ubuntu 24.04).
    system = "/usr/bin/bwrap"
    if os.access(system, os.X_OK):
        return system
    return shutil.which("bwrap", path="/bin:/usr/local/bin") or ""


def identify(program: str) -> tuple[int, ...]:
    """Return what changes when a program is replaced; empty if it does not exist."""
    try:
        status = os.stat(program)
    except OSError:
        return ()
    owner = (status.st_mode, status.st_uid)
    times = (status.st_mtime_ns, status.st_ctime_ns)
    return (status.st_dev, status.st_ino, status.st_size, *owner, *times)


def find_nsenter() -> str:
    """Return the path to nsenter; empty if it is not installed."""
    folders = "/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin"
    return shutil.which("nsenter", path=folders) or ""


def make_loopback_command() -> list[str]:
    """Return the command that creates a shareable loopback (see ``loopback``).

    The command runs bubblewrap, which may create namespaces even where other programs may not.
    """
    new = ("--unshare-user", "--unshare-net", "--die-with-parent")
    return [find_bubblewrap(), "--dev-bind", "/", "/", *new, "--", "/bin/sh", "-c", HOLD]


def try_bubblewrap(loopback: tuple[str, ...] = ()) -> str:
    """Try whether a sandbox can be created and confines. Blocks for a few milliseconds.

    Args:
        loopback: The namespaces to join, as in ``SandboxPolicy``.

    Returns:
        Why bubblewrap does not work; empty if it does.
    """
    if sys.platform != "linux":
        return "bubblewrap exists only on Linux"
    program = find_bubblewrap()
    if not program:
        return "bubblewrap (bwrap) is not installed"
    network = () if loopback else ("--unshare-net",)
    try:
        with tempfile.TemporaryDirectory(prefix="hilum-trial-") as folder:
            hidden = os.path.join(folder, "hidden")
            secret = os.urandom(16).hex()
            with open(hidden, "w", encoding="ascii") as file:
                file.write(secret)
            argv = [*join_loopback(loopback), program, *_ROOT, *_hide(hidden, "", ())]
            argv += [*network, *_BASE, "--", "/bin/sh", "-c", _TRIAL, "hilum-trial", folder]
            done = subprocess.run(argv, capture_output=True, timeout=_TRIAL_TIMEOUT)
            has_written = os.path.lexists(os.path.join(folder, "written"))
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    if has_written:
        return f"{program} does not confine: a command in it could write outside the workspace"
    if secret.encode() in done.stdout:
        return f"{program} does not confine: a command in it could read a hidden file"
    if done.returncode:
        output = done.stderr.decode(errors="replace").strip()
        return f"bubblewrap fails: {output or done.returncode}"
    if done.stdout != b"ran \n":
        return f"{program} does not run commands"
    return ""


def wrap(
    command: Command, policy: SandboxPolicy, outer: Mapping[str, str], inner: Mapping[str, str]
) -> Command:
    """Return the command line that runs a command in the sandbox.

    Args:
        command: The command.
        policy: What the command may do.
        outer: The environment variables that may be set while the sandbox is created.
        inner: The variables that are set only inside the sandbox.
    """
    env = {**outer, "TMPDIR": "/tmp"}
    # The runtime folder is below /run, which is empty in the sandbox.
    env.pop("XDG_RUNTIME_DIR", None)
    # NUL is the only character that no variable can contain. An argument cannot contain NUL either,
    # so the text is passed in hexadecimal.
    added = "\0".join(f"{name}={value}" for name, value in inner.items())
    # `-I` ignores PYTHON… variables and the current folder, which the workspace could use to inject
    # code. `-S` skips the import of `site`, which makes Python start faster.
    first = (find_interpreter(), "-I", "-S", "-c", _START, _FOLDER)
    limits = (str(policy.processes), str(policy.file_size))
    argv = [*join_loopback(policy.loopback), find_bubblewrap(), *_make_options(policy)]
    argv += ["--chdir", command.cwd, "--", *first, *limits]
    argv += [added.encode(errors="surrogateescape").hex(), *command.argv]
    script = _make_script(policy.group, policy.unwanted)
    shell = ("/bin/sh", "-c", script, "hilum-sandbox", policy.filter or os.devnull)
    return Command((*shell, *argv), command.cwd, env, reports=True)


@functools.lru_cache(maxsize=16)
def _make_script(group: str, unwanted: tuple[str, ...]) -> str:
    """Return the shell script around bubblewrap (see the module's text)."""
    quoted = [shlex.quote(path) for path in unwanted]
    clean = "\n".join(
        f"if [ -e {path} ] || [ -L {path} ]; then /bin/rm -rf -- {path}; fi" for path in quoted
    )
    return control_groups.make_join_script(group) + SCRIPT.format(clean=clean or ":")


def make_spare(command: Command, wrapped: Command) -> Command:
    """Return the command line of a spare sandbox, which waits for a command.

    Args:
        command: The command.
        wrapped: The command in its sandbox, from ``wrap``.
    """
    # `sandbox_init.main` waits for a command if its arguments contain none.
    return attrs.evolve(wrapped, argv=wrapped.argv[: -len(command.argv)])


def encode_spare_request(argv: tuple[str, ...], spare: Command, unwanted: tuple[str, ...]) -> bytes:
    """Return a command in the format that ``sandbox_init.read_command`` reads.

    Args:
        argv: The command.
        spare: The command line of the spare sandbox, from ``make_spare``.
        unwanted: The files that the sandbox removes at its end.
    """
    return marshal.dumps((argv, tuple(_find_mount_points(spare.argv)), unwanted))


def _find_mount_points(argv: tuple[str, ...]) -> Iterator[bytes]:
    """Yield the mount points of a sandbox, as /proc/self/mountinfo shows them (see proc(5))."""
    options = iter(argv[: argv.index("--chdir")])
    for option in options:
        if option in ("--ro-bind", "--bind"):
            next(options)
        elif option != "--tmpfs":
            continue
        yield _encode_mount_point(next(options))


@functools.lru_cache(maxsize=1000)
def _encode_mount_point(path: str) -> bytes:
    return os.fsencode(path.translate(_ESCAPES))


@functools.cache
def find_interpreter() -> str:
    """Return the base interpreter, which starts faster than a virtual environment's interpreter."""
    return os.path.realpath(sys.executable)


def join_loopback(loopback: tuple[str, ...]) -> list[str]:
    """Return the command prefix that joins a loopback; empty without a loopback."""
    if not loopback:
        return []
    user, network = loopback
    # Without `--preserve-credentials`, nsenter would switch to user and group 0, which may not
    # exist in this namespace.
    return [find_nsenter(), f"--user={user}", f"--net={network}", "--preserve-credentials", "--"]


# --- mounts ---------------------------------------------------------------------------------------


class _Observed(NamedTuple):
    """What the mounts depend on in addition to the policy.

    Attributes:
        hidden_folders: The hidden paths that are folders.
        emptied: The system's folders that are empty in the sandbox.
        kernel: The parts of /proc that are read-only.
        temp: The resolved path of /tmp.
        needed: The paths that the sandbox itself needs, wherever they are.
        shown: The paths in temporary folders that the command may read.
    """

    hidden_folders: tuple[str, ...]
    emptied: tuple[str, ...]
    kernel: tuple[str, ...]
    temp: str
    needed: tuple[str, ...]
    shown: tuple[str, ...]


def _make_options(policy: SandboxPolicy) -> tuple[str, ...]:
    """Return the bubblewrap options for a policy."""
    options, paths = _build_options(policy, _observe(policy))
    if policy.placeholders:
        shown_instead = dict(policy.placeholders)
        for path in paths:
            _make_mount_point(path, shown_instead)
    return options


def _observe(policy: SandboxPolicy) -> _Observed:
    """Return what the mounts for a policy depend on, which may differ for each command."""
    system = map(os.path.realpath, ("/run", "/var/tmp"))
    return _Observed(
        hidden_folders=tuple(filter(os.path.isdir, policy.hidden)),
        emptied=tuple(filter(os.path.isdir, system)),
        kernel=tuple(filter(os.path.exists, _KERNEL_PATHS)),
        temp=os.path.realpath("/tmp"),
        needed=(*_find_python_folders(), *filter(os.path.exists, _RUN)),
        shown=tuple(filter(os.path.exists, policy.shown)),
    )


# Both hardly ever change between two commands.
@functools.lru_cache(maxsize=16)
def _build_options(
    policy: SandboxPolicy, observed: _Observed
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the bubblewrap options for a policy, and the mounted paths that are not hidden."""
    options = list(_ROOT)
    mounts, paths = _make_mounts(policy, observed)
    # Folders are mounted before their contents, because a later mount covers an earlier mount.
    for path in sorted(mounts, key=lambda path: (path.count("/"), path)):
        options += mounts[path]
    # With a loopback, nsenter has already entered a network namespace.
    if not (policy.network or policy.loopback):
        options.append("--unshare-net")
    # SCRIPT opens the filter as descriptor 5.
    if policy.filter:
        options += ["--seccomp", "5"]
    return (*options, *_BASE), paths


def _make_mounts(
    policy: SandboxPolicy, observed: _Observed
) -> tuple[dict[str, Mount], tuple[str, ...]]:
    """Return the mount for each path (if several apply, the strictest one), and the other paths."""
    shown_instead = dict(policy.placeholders)
    # Everything in a placeholder is hidden already, and bubblewrap cannot create mount points in it.
    outermost = [path for path in policy.hidden if not is_below(path, shown_instead)]
    hidden = {
        path: _hide(path, shown_instead.get(path, ""), observed.hidden_folders)
        for path in outermost
    }
    mounts = _make_system_mounts(policy.temp, observed)
    covered = (*mounts, *hidden)
    needed = {path: _read_only(path) for path in observed.needed if is_below(path, covered)}
    needed |= {path: _read_only(path) for path in observed.shown}
    for path in policy.protected:
        # Mount points cannot be renamed, so a command cannot move a parent folder away and create a
        # different file at the protected path.
        for folder in _find_between(path, policy.writable):
            mounts[folder] = ("--bind", folder, folder)
    for path in policy.sockets:
        # Otherwise, a command could rename the folder, and the next one would not know the socket.
        for folder in _find_between(path, policy.writable):
            mounts[folder] = ("--bind", folder, folder)
    mounts |= {path: ("--bind", path, path) for path in policy.writable}
    mounts |= {path: _read_only(path) for path in policy.protected}
    mounts |= {path: ("--ro-bind", shown, path) for path, shown in policy.ignored}
    # The last mapping that contains a path takes precedence, so a hidden path stays hidden even if
    # it is also writable or protected.
    return needed | mounts | hidden, tuple(mounts.keys() | needed.keys())


def _make_system_mounts(temp: str, observed: _Observed) -> dict[str, Mount]:
    """Return the mounts that every sandbox has: empty folders, kernel file systems and ``/tmp``."""
    mounts = {path: _empty(path) for path in observed.emptied}
    mounts |= {path: _read_only(path) for path in observed.kernel}
    mounts[observed.temp] = ("--bind", temp, observed.temp)
    return mounts


def _make_mount_point(path: str, placeholders: Mapping[str, str]) -> None:
    """Create the place in a placeholder at which a path is mounted, if the path is inside one."""
    for hidden, placeholder in placeholders.items():
        if not is_below(path, [hidden]):
            continue
        point = os.path.join(placeholder, os.path.relpath(path, hidden))
        if os.path.isdir(path):
            os.makedirs(point, exist_ok=True)
        elif not os.path.lexists(point):
            os.makedirs(os.path.dirname(point), exist_ok=True)
            os.close(os.open(point, os.O_WRONLY | os.O_CREAT, 0o600))


def _read_only(path: str) -> Mount:
    return ("--ro-bind", path, path)


def _empty(path: str) -> Mount:
    return ("--tmpfs", path)


def _hide(path: str, placeholder: str, folders: Collection[str]) -> Mount:
    if placeholder:
        return ("--ro-bind", placeholder, path)
    if path in folders:
        return _empty(path)
    return ("--ro-bind", os.devnull, path)


def _find_python_folders() -> list[str]:
    """Return the interpreter's folders and the folders in /tmp that Python imports from."""
    # Plugin workers may be imported from folders in /tmp. A program may change sys.path and remove
    # such a folder, and bubblewrap fails if the source of a mount is missing.
    temp = os.path.realpath("/tmp") + "/"
    folders = set(_find_installation())
    for real in map(_resolve_import_path, filter(os.path.isabs, sys.path)):
        if real.startswith(temp) and os.path.exists(real):
            folders.add(real)
    return sorted(folders)


@functools.lru_cache(maxsize=1000)
def _resolve_import_path(path: str) -> str:
    """Return a path without links; each command would spend a tenth of its start on this."""
    return os.path.realpath(path)


@functools.cache
def _find_installation() -> frozenset[str]:
    # `sysconfig` knows these folders, too, but loading it takes 10 ms.
    libraries = os.path.join(sys.platlibdir, f"python{sys.version_info[0]}.{sys.version_info[1]}")
    folders = {sys.base_prefix, sys.prefix, os.path.dirname(os.__file__)}
    for prefix in (sys.base_exec_prefix, sys.exec_prefix):
        folder = os.path.join(prefix, libraries)
        if os.path.isdir(folder):  # bubblewrap fails if the source of a mount is missing
            folders.add(folder)
    return frozenset({_FOLDER, find_interpreter(), *folders})


def _find_between(path: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders between a writable folder and a path in it."""
    folder = os.path.dirname(path)
    while folder not in roots and len(folder) > 1:
        yield folder
        folder = os.path.dirname(folder)
