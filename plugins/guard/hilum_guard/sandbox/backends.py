"""Select the sandbox that works on this system, and wrap commands in it.

On Linux, hilum uses bubblewrap if it works, otherwise Landlock; on macOS, it uses ``sandbox-exec``.
Other systems have no sandbox, and hilum reports that. Importing this module imports all backends,
so the rest of the package imports it only when the first command runs.
"""

from __future__ import annotations

import marshal
import os
import shutil
import subprocess
import sys
from contextlib import suppress

from hilum import Command

from hilum_guard.sandbox import bubblewrap, control_groups, landlock, loopback, seatbelt, seccomp
from hilum_guard.sandbox.enforcement import Enforcement
from hilum_guard.sandbox.environment import split_environment
from hilum_guard.sandbox.sandbox_policy import SandboxPolicy
from hilum_guard.settings import GuardSettings

INSTALL_ADVICE = (
    "Install bubblewrap with the system's package manager, and allow it to create user namespaces."
)
_START = "import sys; sys.path.append(sys.argv[1]); import landlock; landlock.%s(*sys.argv[2:])"
_ALONE = "Each command and its child processes have a separate loopback: {}."
# On a very busy machine, starting a program takes seconds.
_TRIAL_TIMEOUT = 15  # seconds
# The Landlock ABI versions that added rights for truncation and for signals.
_ABI_OF_TRUNCATION = 3
_ABI_OF_SIGNALS = 6


def find_enforcement() -> Enforcement:
    """Return what this system enforces, determined by trying its sandboxes."""
    found = check_bubblewrap()
    if not isinstance(found, str):
        return found
    if sys.platform == "darwin":
        return _check_seatbelt()
    with_landlock = check_landlock(found)
    if not isinstance(with_landlock, str):
        return with_landlock
    return Enforcement(reasons=(f"Nothing: {found}; {with_landlock}.",))


def check_bubblewrap() -> Enforcement | str:
    """Return what bubblewrap enforces on this system, or why it does not work."""
    can_share = bool(bubblewrap.find_bubblewrap() and bubblewrap.find_nsenter())
    # Testing the shared loopback also tests bubblewrap, which saves a second test.
    shared = can_share and loopback.works(
        bubblewrap.make_loopback_command(), lambda paths: not bubblewrap.try_bubblewrap(paths)
    )
    if not shared:
        failure = bubblewrap.try_bubblewrap()
        if failure:
            return failure
    limits, reasons = _check_limits()
    if not shared:
        cause = (
            "an existing one cannot be joined"
            if can_share
            else "nsenter (util-linux) is not installed"
        )
        reasons = [*reasons, _ALONE.format(cause)]
    return Enforcement("bubblewrap", True, True, "namespace", True, limits, tuple(reasons), shared)


def check_landlock(instead: str = "") -> Enforcement | str:
    """Return what Landlock enforces on this system, or why it does not work.

    Args:
        instead: Why bubblewrap is not used; empty to omit this reason.
    """
    if sys.platform != "linux":
        return "Landlock exists only on Linux"
    version = landlock.read_abi_version()
    if not version:
        return "this kernel does not support Landlock"
    shared = loopback.works(
        make_loopback_command("landlock"), lambda paths: _try_landlock(True, version, paths)
    )
    apart = shared or _try_landlock(True, version)
    if not apart and not _try_landlock(False, version):
        return "the Landlock sandbox cannot be started"
    limits, limit_reasons = _check_limits()
    filters = _make_filters(())
    reasons = [f"bubblewrap is not used: {instead}."] if instead else []
    reasons += _explain_landlock(version, apart, shared, bool(filters))
    return Enforcement(
        "landlock",
        files=version >= _ABI_OF_TRUNCATION,
        network="namespace" if apart else _FILTERED[bool(filters)],
        processes=version >= _ABI_OF_SIGNALS,
        limits=limits,
        reasons=(*reasons, *limit_reasons),
        shared=shared,
    )


_FILTERED = {True: "filter", False: ""}


def _explain_landlock(version: int, apart: bool, shared: bool, filtered: bool) -> list[str]:
    """Return the restrictions that Landlock does not enforce on this system, one sentence each."""
    reasons = [
        "Commands can write to protected paths in the workspace (.git/hooks, .git/config, .hilum,"
        " .vscode …), so commands that are not known to be harmless need approval even with"
        " approve = auto.",
        "Commands can change modes, owners and timestamps of the user's files outside the"
        " workspace, and list the names of hidden files.",
    ]
    if version < _ABI_OF_TRUNCATION:
        reasons.append(
            "Commands can truncate files outside the workspace, though not write to them:"
            " the kernel is too old."
        )
    if not apart:
        reasons.append(
            "Commands cannot even use the loopback interface: there is no network namespace."
        )
    elif not shared:
        reasons.append(_ALONE.format("an existing one cannot be joined"))
    if version < _ABI_OF_SIGNALS:
        reasons.append(
            "Commands can send signals to the user's other processes: the kernel is too old."
        )
    if filtered:
        reasons.append("Commands cannot open Unix sockets.")
    else:
        reasons.append("Commands can connect to Unix sockets of the user's services.")
    return reasons


def _check_seatbelt() -> Enforcement:
    """Return what ``sandbox-exec`` enforces."""
    missing = seatbelt.check_seatbelt()
    if missing:
        return Enforcement(reasons=(f"Nothing: {missing}.",))
    reasons = (
        "The macOS profile has not been tested by its authors.",
        "The number of processes is not limited.",
    )
    return Enforcement("sandbox-exec", True, True, "namespace", True, False, reasons)


def _check_limits() -> tuple[bool, list[str]]:
    """Return whether the number of processes is limited, and the reasons if it is not."""
    # The kernel does not apply RLIMIT_NPROC to root, so root needs a control group.
    if os.getuid() or control_groups.create_group(GuardSettings().processes):
        return True, []
    return False, [
        "The number of processes is not limited: root has no such limit, and no control group can"
        " be created."
    ]


# --- commands -------------------------------------------------------------------------------------


def wrap(command: Command, policy: SandboxPolicy, found: Enforcement) -> Command:
    """Return the command line that runs a command in the best available sandbox.

    If no sandbox is available, return the command unchanged.

    Args:
        command: The command.
        policy: What the command may do.
        found: The sandbox to use; ``sandbox_probe.probe`` returns the best available.
    """
    if not found.by:
        return command
    program = command.argv[0]
    path = command.env.get("PATH", os.defpath)
    if "/" not in program and shutil.which(program, path=path) is None:
        # Let the warden reject a missing program as it would without a sandbox. This hidden folder
        # does not exist, and no command can create it.
        return Command(command.argv, command.cwd, command.env | {"PATH": "/proc/nowhere"})
    if found.by == "landlock":
        return confine(command, policy, found.network)
    if found.by == "bubblewrap":
        return bubblewrap.wrap(command, policy, *split_environment(command.env))
    return seatbelt.wrap(command, policy)


def confine(command: Command, policy: SandboxPolicy, network: str = "namespace") -> Command:
    """Return the command line that runs a command under Landlock.

    Args:
        command: The command.
        policy: What the command may do.
        network: The mechanism that blocks the network, as in ``Enforcement``.
    """
    apart = network == "namespace"
    needs_filter = not apart and not policy.network
    # The launcher's Python and dynamic loader must not receive variables that make them load code.
    outer, inner = split_environment(command.env | {"TMPDIR": policy.temp})
    spec = _encode_spec(
        landlock.read_abi_version(),
        (*policy.writable, policy.temp),
        policy.hidden,
        apart,
        not policy.network,
        policy.loopback,
        _make_filters(seccomp.ALL if needs_filter else seccomp.LOCAL),
        policy.processes,
        policy.file_size,
        inner,
    )
    argv = (*_launch_landlock("main"), spec, *command.argv)
    join = control_groups.make_join_script(policy.group)
    if join:
        argv = ("/bin/sh", "-c", f'{join} exec "$@"', "hilum-group", *argv)
    return Command(argv, command.cwd, outer)


def make_loopback_command(by: str) -> list[str]:
    """Return the command that creates a shareable loopback.

    Args:
        by: The sandbox whose commands join the loopback, as in ``Enforcement``.
    """
    if by == "bubblewrap":
        return bubblewrap.make_loopback_command()
    return [*_launch_landlock("hold_loopback"), loopback.HOLD]


def make_namespace_filter() -> bytes:
    """Return the filter for sockets that no network namespace confines; empty if there is none."""
    return _make_filters(seccomp.UNSPACED)


def _try_landlock(apart: bool, version: int, shared: tuple[str, ...] = ()) -> bool:
    """Return whether a test command starts under Landlock."""
    spec = _encode_spec(version, (), (), apart, apart, shared, _make_filters(()), 1024, 1024, {})
    argv = [*_launch_landlock("main"), spec, "/bin/sh", "-c", ":"]
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(argv, capture_output=True, timeout=_TRIAL_TIMEOUT)
        return done.returncode == 0
    return False


def _launch_landlock(function: str) -> tuple[str, ...]:
    """Return a command that calls a function of the ``landlock`` module outside the package."""
    folder = os.path.dirname(os.path.abspath(__file__))
    return (bubblewrap.find_interpreter(), "-I", "-S", "-c", _START % function, folder)


def _encode_spec(*parts: object) -> str:
    """Return the arguments for ``landlock.main`` as text; marshal is quick to import."""
    return marshal.dumps(parts).hex()  # type: ignore[arg-type]


def _make_filters(families: tuple[int, ...]) -> bytes:
    machine = os.uname().machine
    if machine in seccomp.ARCHITECTURES:
        return seccomp.program(machine, families)
    return b""
