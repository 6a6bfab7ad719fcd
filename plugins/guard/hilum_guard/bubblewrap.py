"""The sandbox of bubblewrap: namespaces for files, network, processes and shared memory, built
before the command starts.

::

    sh (SCRIPT) ──► nsenter, then bwrap ──► perl (FIRST), else python inside.py: process 1 of its namespace ──► the command

``nsenter`` joins the loopback of the session (see ``loopback``), where it can be shared.

``sh`` ignores the signals that ask to go, as bwrap would take everything down before the command
could clean up; and it ends by the signal that ended the command. When everything in the sandbox has
ended, it removes what must not be there. Nothing is mounted over a path that does not exist in a
writable folder: bubblewrap would leave an empty file there.
"""

from __future__ import annotations

import functools
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hilum import Command

if TYPE_CHECKING:
    from hilum_guard.policy import Policy

# bwrap's output goes through descriptor 4, so that what inside.py tells is all that the shell
# reads.
# A file that is covered, such as a socket of the user's, may vanish before bwrap mounts over it, and then bwrap starts nothing:
# it is tried once more without what is gone.
SCRIPT = """
trap '' TERM INT HUP QUIT
exec 4>&1
filter=$1
shift
start() {{
  exec 5<"$filter"
  said=$(exec "$@" 3>&1 >&4 4>&-)
  code=$?
}}
start "$@"
if [ -z "$said" ] && [ "$code" = 1 ]; then
  count=$#
  left=$#
  options=1
  while [ "$left" -gt 0 ]; do
    if [ "$1" = --chdir ]; then options=; fi
    if [ "$options" ] && [ "$left" -gt 2 ] && [ "$1 $2" = "--ro-bind /dev/null" ] && [ ! -e "$3" ]; then
      shift 3
      left=$((left - 3))
    else
      set -- "$@" "$1"
      shift
      left=$((left - 1))
    fi
  done
  if [ "$#" -lt "$count" ]; then start "$@"; fi
fi
{clean}
case $said in
  s*) trap - TERM INT HUP QUIT; ulimit -c 0; kill -"${{said#s}}" $$ ;;
  e*) ;;
  *) echo "hilum: the sandbox ended before the command did (code $code)." >&2; exit 125 ;;
esac
exit "$code"
"""
_START = "import sys; sys.path.append(sys.argv[1]); import inside; inside.main(*sys.argv[2:])"
_FOLDER = os.path.dirname(os.path.abspath(__file__))
# The same as inside.py where there is a Perl, whose start costs 1.5 ms and not 7. No module is
# loaded. FPE: Perl ignores it.
FIRST = r"""
my ($prlimit, $processes, $file_size, $more, @argv) = @ARGV;
for ([6, $processes], [1, 1_000_000 * $file_size]) {  # RLIMIT_NPROC, RLIMIT_FSIZE
  my ($kind, $most) = @$_;
  my $limits = pack "Q2";
  syscall($prlimit + 0, 0, $kind, 0, $limits) and exit 125;
  my $hard = (unpack "Q2", $limits)[1];
  my $value = $most < $hard ? $most : $hard;
  syscall($prlimit + 0, 0, $kind, pack("Q2", $value, $value), 0) and exit 125;
}
open my $status, ">&=", 3 or exit 125;
open my $notice, ">&=", 9 or undef $notice;  # is open where what the command leaves running may go on
defined(my $pid = fork) or exit 125;
if (!$pid) {
  close $status;
  close $notice if $notice;
  $SIG{$_} = "DEFAULT" for qw(HUP INT QUIT TERM PIPE FPE XFSZ CHLD);
  delete $ENV{PERL_BADLANG};
  for (split /\0/, pack "H*", $more) { my ($name, $value) = split /=/, $_, 2; $ENV{$name} = $value }
  exec { $argv[0] } @argv;
  my $code = $! == 2 ? 127 : 126;
  syswrite STDERR, "$argv[0]: $!\n";
  exit $code;
}
my ($end, $told);
for (my $round = 0; $round <= 20; ) {  # then 0.1 seconds for what is left behind, as the warden gives it
  my $found = waitpid -1, (defined $end && !$told) + 0;
  last if $found < 0;
  if ($found == $pid) { $end = $? }
  elsif (!$found) {
    $round++;
    select undef, undef, undef, 0.005;
    if ($round > 20 && $notice) {
      # Perl opens a descriptor that is not there without complaint, and says so only when it is written to.
      my $wrote = syswrite $notice, $end & 127 ? -($end & 127) : $end >> 8;
      close $notice;
      undef $notice;
      ($told, $round) = (1, 0) if $wrote;
    }
  }
}
my $signal = $end & 127;
syswrite $status, $signal ? "s$signal" : "e";
exit($signal ? 128 + $signal : $end >> 8);
"""
PERL = "/usr/bin/perl"
_PRLIMIT = {"x86_64": 302, "aarch64": 261}
"""The number of the system call, for Perl."""
# What root owns in /proc it could write to even without capabilities.
_KERNEL = ("sys", "sysrq-trigger", "acpi", "bus", "fs", "irq", "mtrr", "scsi")
_ROOT = ("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc")
_BASE = (
    "--unshare-user",
    "--unshare-pid",
    "--unshare-ipc",
    "--unshare-uts",
    "--cap-drop",
    "ALL",
    "--die-with-parent",
    "--as-pid-1",
)
# Of /run, which is full of sockets of services, what programs cannot do without: name resolution,
# and NixOS's programs.
_RUN = (
    "/run/systemd/resolve/resolv.conf",
    "/run/systemd/resolve/stub-resolv.conf",
    "/run/NetworkManager/resolv.conf",
    "/run/current-system",
    "/run/opengl-driver",
)


def find() -> str:
    """Return the path of bubblewrap, empty if there is none: the system's own first, which AppArmor
    lets make namespaces.
    """
    system = "/usr/bin/bwrap"
    if os.access(system, os.X_OK):
        return system
    return shutil.which("bwrap", path="/bin:/usr/local/bin") or ""


def maker() -> list[str]:
    """Return the command that makes a loopback to share (see ``loopback``).

    Bubblewrap, as it may where others may not.
    """
    from hilum_guard.loopback import HOLD

    new = ("--unshare-user", "--unshare-net", "--die-with-parent")
    return [find(), "--dev-bind", "/", "/", *new, "--", "/bin/sh", "-c", HOLD]


def joined(loopback: tuple[str, ...]) -> list[str]:
    """Return the words that go before bubblewrap to join a loopback.

    None where there is none to join.
    """
    if not loopback:
        return []
    user, network = loopback
    return [nsenter(), f"--user={user}", f"--net={network}", "--preserve-credentials", "--"]


def nsenter() -> str:
    """Return the path of nsenter, empty if there is none."""
    return (
        shutil.which("nsenter", path="/usr/bin:/bin:/usr/local/bin:/run/current-system/sw/bin")
        or ""
    )


def trial(loopback: tuple[str, ...] = ()) -> str:
    """Try to build a sandbox. Blocks for some milliseconds.

    Args:
        loopback: What to join, as in ``Policy``.

    Returns:
        Why it does not work, empty if it does.
    """
    if sys.platform != "linux":
        return "bubblewrap exists for Linux only"
    bwrap = find()
    if not bwrap:
        return "bubblewrap (bwrap) is not installed"
    argv = [
        *joined(loopback),
        bwrap,
        *_ROOT,
        *([] if loopback else ["--unshare-net"]),
        *_BASE,
        "--",
    ]
    try:
        done = subprocess.run([*argv, "/bin/sh", "-c", ":"], capture_output=True, timeout=4)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"bubblewrap cannot be run: {error}"
    if done.returncode:
        return (
            f"bubblewrap fails: {done.stderr.decode(errors='replace').strip() or done.returncode}"
        )
    return ""


def wrap(command: Command, policy: Policy) -> Command:
    """Return the command that runs a command in the sandbox."""
    from hilum_guard import groups
    from hilum_guard.environment import split

    outer, inner = split(command.env | {"TMPDIR": "/tmp"})
    outer.pop("XDG_RUNTIME_DIR", None)
    more = (
        "\0".join(f"{name}={value}" for name, value in inner.items())
        .encode(errors="surrogateescape")
        .hex()
    )
    first = _first()
    argv = [
        *joined(policy.loopback),
        find(),
        *_arguments(policy),
        "--chdir",
        command.cwd,
        "--",
        *first,
    ]
    argv += [str(policy.processes), str(policy.file_size), more, *command.argv]
    gone = [shlex.quote(path) for path in policy.unwanted]
    clean = "\n".join(
        f"if [ -e {path} ] || [ -L {path} ]; then /bin/rm -rf -- {path}; fi" for path in gone
    )
    script = groups.script(policy.group) + SCRIPT.format(clean=clean)
    if first[0] == PERL:
        outer["PERL_BADLANG"] = "0"  # or Perl speaks of locales that are not there
    argv = ["/bin/sh", "-c", script, "hilum-sandbox", policy.filter or os.devnull, *argv]
    return Command(tuple(argv), command.cwd, outer, reports=True)


def _first() -> tuple[str, ...]:
    """Return the program that is process 1 of a sandbox."""
    number = _PRLIMIT.get(os.uname().machine)
    if number and os.access(PERL, os.X_OK):
        return (PERL, "-e", FIRST, str(number))
    return (interpreter(), "-I", "-S", "-c", _START, _FOLDER)


def interpreter() -> str:
    """Return the interpreter itself, without a virtual environment: it starts faster."""
    return os.path.realpath(sys.executable)


def _arguments(policy: Policy) -> list[str]:
    mounts = _mounts(policy)
    # A folder comes before what is in it: what is mounted later lies on top.
    ordered = [
        word
        for path in sorted(mounts, key=lambda path: (path.count("/"), path))
        for word in mounts[path]
    ]
    return [
        *_ROOT,
        *ordered,
        *([] if policy.network or policy.loopback else ["--unshare-net"]),
        *(["--seccomp", "5"] if policy.filter else []),
        *_BASE,
    ]


def _mounts(policy: Policy) -> dict[str, tuple[str, ...]]:
    """Return the mounts by path, the strictest one where a path has several."""
    temp = os.path.realpath("/tmp")
    hidden = {
        path: ("--tmpfs", path) if os.path.isdir(path) else ("--ro-bind", os.devnull, path)
        for path in policy.hidden
    }
    mounts: dict[str, tuple[str, ...]] = {
        path: ("--tmpfs", path) for path in ("/run", "/var/tmp") if os.path.isdir(path)
    }
    mounts |= {
        path: ("--ro-bind", path, path)
        for name in _KERNEL
        if os.path.exists(path := f"/proc/{name}")
    }
    mounts[temp] = ("--bind", policy.temp, temp)
    needed = {path: ("--ro-bind", path, path) for path in _needed((*mounts, *hidden))}
    needed |= {path: ("--ro-bind", path, path) for path in policy.shown if os.path.exists(path)}
    for path in policy.protected:
        for folder in _between(path, policy.writable):
            mounts[folder] = (
                "--bind",
                folder,
                folder,
            )  # a mount point cannot be renamed, and with it what is in it
    mounts |= {path: ("--bind", path, path) for path in policy.writable}
    mounts |= {path: ("--ro-bind", path, path) for path in policy.protected}
    return needed | mounts | hidden


def _needed(covered: tuple[str, ...]) -> Iterator[str]:
    """Yield what the sandbox itself cannot do without, where it lies in a folder that is
    covered.
    """
    for path in (*_pythons(), *filter(os.path.exists, _RUN)):
        if any(path.startswith(f"{folder}/") for folder in covered):
            yield path


def _pythons() -> list[str]:
    """Return the folders of the interpreter, and those below /tmp from which Python imports at the
    moment.
    """
    # What is worked on is beside them: the workers of plugins are imported from there. A program
    # may change sys.path and remove such a folder, and bubblewrap starts nothing if one of its
    # sources is missing.
    temp = os.path.realpath("/tmp") + "/"
    imported = {os.path.realpath(path) for path in sys.path if os.path.isabs(path)}
    return sorted(
        _installation()
        | {path for path in imported if path.startswith(temp) and os.path.exists(path)}
    )


@functools.cache
def _installation() -> frozenset[str]:
    import sysconfig

    base = sysconfig.get_paths()
    return frozenset(
        {_FOLDER, interpreter(), sys.base_prefix, sys.prefix, base["stdlib"], base["platstdlib"]}
    )


def _between(path: str, roots: tuple[str, ...]) -> Iterator[str]:
    """Yield the folders between a writable folder and a path in it."""
    folder = os.path.dirname(path)
    while folder not in roots and len(folder) > 1:
        yield folder
        folder = os.path.dirname(folder)
