"""A Slurm cluster of a test's own: one node, in a temporary folder, on a socket and ports of its own."""

import getpass
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

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "scancel", "squeue", "sinfo")
MISSING = "Slurm is not installed (Debian: apt-get install slurm-wlm munge)"
START_TIMEOUT = 60.0

# One node on the loopback interface, which claims to have four processors. No cgroups, no accounting.
CONFIGURATION = """\
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
SlurmctldPort={controller_port}
SlurmdPort={node_port}
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SlurmdParameters=config_overrides
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=2
ReturnToService=2
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=2000 State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def has_slurm() -> bool:
    """Return whether all programs are installed."""
    return all(shutil.which(name, path=_search_path()) for name in PROGRAMS)


def _search_path() -> str:
    # The daemons are in folders that the PATH of a user may lack.
    return os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))


class SlurmCluster:
    """The daemons, and what a user asks them. Create it with ``run_slurm``.

    Attributes:
        env: The environment variables with which programs find this cluster.
    """

    def __init__(self, folder: Path) -> None:
        self.env = {"SLURM_CONF": str(folder / "slurm.conf")}
        self._folder = folder
        self._host = socket.gethostname().partition(".")[0]
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def create(self) -> None:
        """Write the configuration and the key."""
        for name in ("state", "spool"):
            (self._folder / name).mkdir()
        key = self._folder / "munge.key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        text = CONFIGURATION.format(
            host=self._host,
            user=getpass.getuser(),
            folder=self._folder,
            controller_port=_find_port(),
            node_port=_find_port(),
        )
        (self._folder / "slurm.conf").write_text(text)

    def start(self) -> None:
        """Start all daemons, and wait until the node takes jobs."""
        files = (
            ("key-file", "munge.key"),
            ("socket", "munge.socket"),
            ("pid-file", "munge.pid"),
            ("log-file", "munge.log"),
            ("seed-file", "munge.seed"),
        )
        places = [f"--{option}={self._folder / name}" for option, name in files]
        # --force: the folder is not one that munged would choose.
        self._start("munged", "--foreground", "--force", "--num-threads=1", *places)
        _wait_until((self._folder / "munge.socket").exists, "munged does not start")
        self.start_controller()
        self._start("slurmd", "-D", "-f", self.env["SLURM_CONF"], "-N", self._host)
        _wait_until(lambda: self.ask("sinfo", "-h", "-o", "%t") == "idle", "the node is not idle")

    def start_controller(self) -> None:
        """Start the controller, which keeps the queue."""
        self._start("slurmctld", "-D", "-f", self.env["SLURM_CONF"])

    def stop(self, name: str) -> None:
        """Stop a daemon."""
        daemon = self._daemons.pop(name)
        daemon.send_signal(signal.SIGTERM)
        try:
            daemon.wait(10)
        except subprocess.TimeoutExpired:
            daemon.kill()
            daemon.wait()

    def stop_all(self) -> None:
        """Cancel all jobs, and stop all daemons."""
        if "slurmctld" in self._daemons:
            self.ask("scancel", *self.jobs)
        for name in reversed(list(self._daemons)):
            self.stop(name)

    @property
    def jobs(self) -> list[str]:
        """The ids of the jobs that wait or run."""
        return self.ask("squeue", "-h", "-o", "%i").split()

    def ask(self, *command: str) -> str:
        """Run one of Slurm's commands; return its output, empty if it fails."""
        done = subprocess.run(
            command, env=os.environ | self.env, capture_output=True, text=True, timeout=60
        )
        return done.stdout.strip()

    def _start(self, name: str, *arguments: str) -> None:
        program = shutil.which(name, path=_search_path())
        assert program is not None, MISSING
        with (self._folder / f"{name}.out").open("ab") as out:
            self._daemons[name] = subprocess.Popen(
                (program, *arguments),
                cwd=self._folder,
                env=os.environ | self.env,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
            )


def _find_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def _wait_until(condition, problem: str) -> None:
    deadline = time.monotonic() + START_TIMEOUT
    while not condition():
        assert time.monotonic() < deadline, problem
        time.sleep(0.05)


@contextmanager
def run_slurm() -> Iterator[SlurmCluster]:
    """Yield a running cluster; it ends with the block."""
    # Not a folder of pytest: the path of a socket has at most 107 characters.
    folder = Path(tempfile.mkdtemp(prefix="slurm-"))
    cluster = SlurmCluster(folder)
    try:
        cluster.create()
        cluster.start()
        yield cluster
    finally:
        cluster.stop_all()
        shutil.rmtree(folder, ignore_errors=True)
