"""The results of a measurement: one line for each attempt in a file that survives a kill.

A line contains the digests of the case and of the arm, so that the results of changed cases are not
used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import hilum
from hilum import HilumError, StoreError, UsageError
from hilum.errors import E_BAD_ARGS, E_BUSY, E_STORE

from hilum_eval.arm import Arm
from hilum_eval.attempt import Attempt
from hilum_eval.case_reader import compute_digest
from hilum_eval.converter import structure, unstructure
from hilum_eval.jobs import Job

RESULTS = "attempts.jsonl"
SCHEMA = 1
"""Version of the format, which changes when lines of an earlier version must not be used again."""
_LOCK = "lock"


class ResultsFile:
    """The file ``attempts.jsonl`` in the folder of a measurement. ``open_results`` opens it.

    Attributes:
        path: The file.
        problems: What is wrong with its lines, and with writing to it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[str] = []
        self._entries: dict[tuple[str, str, int, str, str], Attempt] = {}
        self._digests: dict[str, str] = {}

    def find(self, job: Job) -> Attempt | None:
        """Return the result of a job; ``None`` if it was not made or must be made again."""
        found = self._entries.get(self._make_key(job))
        # What was broken or skipped may work now.
        return found if found is not None and found.state == "verified" else None

    def append(self, job: Job, attempt: Attempt) -> None:
        """Store a result durably. A file that cannot be written is a problem, but no error."""
        key = self._make_key(job)
        case_digest, arm_digest = key[3:]
        line = {
            "schema": SCHEMA,
            "hilum": hilum.__version__,
            "case_digest": case_digest,
            "arm_digest": arm_digest,
            "seed": job.repeat,
            "attempt": unstructure(attempt),
        }
        self._entries[key] = attempt
        try:
            _append_line(self.path, json.dumps(line).encode())
        except OSError as error:
            problem = f"{self.path} cannot be written: {error.strerror}."
            if problem not in self.problems:
                self.problems.append(problem)

    def read(self) -> None:
        """Read the lines. The line at which a kill cut the file off is ignored; others are named."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return
        lines = content.split(b"\n")
        is_torn = bool(lines[-1])
        for number, line in enumerate(lines, 1):
            if not line:
                continue
            problem = self._read_line(line)
            if problem and not (is_torn and number == len(lines)):
                self.problems.append(f"{self.path}: line {number} is not used: {problem}.")

    def _read_line(self, line: bytes) -> str:
        """Add the result in a line, and return what is wrong with it."""
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return "it is not valid JSON"
        if not isinstance(data, dict):
            return "it is not a JSON object"
        if data.get("schema") != SCHEMA:
            return f"its schema is {data.get('schema')!r}, and not {SCHEMA}"
        try:
            attempt = structure(data.get("attempt"), Attempt, "attempt")
        except UsageError as error:
            return error.message.rstrip(".")
        digests = str(data.get("case_digest")), str(data.get("arm_digest"))
        self._entries[attempt.case, attempt.arm, attempt.repeat, *digests] = attempt
        return ""

    def _make_key(self, job: Job) -> tuple[str, str, int, str, str]:
        digest = self._digests.get(job.case.id)
        if digest is None:
            try:
                digest = compute_digest(job.case)
            except OSError as error:
                raise UsageError(
                    f"{error.filename} cannot be used: {error.strerror}.",
                    code=E_BAD_ARGS,
                    hint=f"Correct the files of the case {job.case.id}: see `hilum eval check`.",
                ) from None
            self._digests[job.case.id] = digest
        return job.case.id, job.arm.name, job.repeat, digest, compute_arm_digest(job.arm)


def compute_arm_digest(arm: Arm) -> str:
    """Return a digest of everything that an arm says, with the files that it names."""
    digest = hashlib.sha256()
    digest.update(json.dumps(unstructure(arm), sort_keys=True, default=str).encode())
    for name in (*arm.plugins, arm.profile):
        path = Path(name)
        if path.suffix in (".py", ".toml") and path.is_file():
            digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def open_results(folder: Path, *, resume: bool) -> Iterator[ResultsFile]:
    """Open the results of a measurement, which only one process may do.

    Args:
        folder: The folder of the measurement, which is created if it does not exist.
        resume: Whether to continue a measurement.

    Raises:
        UsageError: The folder contains results, and they are not to be continued.
        StoreError: Another process has the folder open (``E_BUSY``), or it cannot be written.
    """
    path = folder / RESULTS
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise _not_writable(folder, error) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise StoreError(
                f"Another `hilum eval` writes to {folder}.",
                code=E_BUSY,
                hint="Wait for its end, or choose another folder: --out DIR.",
            ) from None
        if path.exists() and not resume:
            raise UsageError(
                f"{path} exists.",
                code=E_BAD_ARGS,
                hint="Continue it with --resume, or choose another folder: --out DIR.",
            )
        results = ResultsFile(path)
        results.read()
        yield results
    finally:
        # This also releases the lock.
        os.close(descriptor)


def _append_line(path: Path, line: bytes) -> None:
    """Append a line durably. A line that was cut off before is ended first."""
    with path.open("ab+") as file:
        end = file.seek(0, os.SEEK_END)
        if end:
            file.seek(end - 1)
            if file.read(1) != b"\n":
                line = b"\n" + line
        file.write(line + b"\n")
        file.flush()
        os.fsync(file.fileno())


def _not_writable(folder: Path, error: OSError) -> HilumError:
    return StoreError(
        f"The folder {folder} cannot be used: {error.strerror}.",
        code=E_STORE,
        hint="Choose another folder: --out DIR.",
    )
