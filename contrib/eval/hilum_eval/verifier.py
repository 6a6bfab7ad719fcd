"""Runs the verifier of a case, which checks the result of an attempt.

The verifier is a program of the case that runs what the agent made, so it runs in a process of its
own with a time limit and, if the machine has bubblewrap, without a network and with write access to
the folders of the attempt only.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum.errors import E_CMD_FAIL, E_TIMEOUT
from hilum.processes import Command, CommandError, Completed, Warden

from hilum_eval.case import Case
from hilum_eval.case_reader import VERIFIER
from hilum_eval.converter import unstructure
from hilum_eval.transcript import Transcript
from hilum_eval.workspaces import Place, get_last_line

ATTEMPT_VARIABLE = "HILUM_EVAL_ATTEMPT"
"""Environment variable of a verifier with the path of the file that describes the attempt."""
FULL_SCORE = 10.0


@attrs.frozen(kw_only=True)
class Verdict:
    """What a verifier found.

    Args:
        completion: How much of the task is done, 0 to 10.
        security: 0 or 10.
        reason: Why points are missing.
        checks: Results of single checks, by name.
        broken: Why there is no verdict; empty if there is one.
        code: Error code if there is no verdict.
    """

    completion: float = 0.0
    security: float = FULL_SCORE
    reason: str = ""
    checks: Mapping[str, Any] = attrs.field(factory=dict)
    broken: str = ""
    code: str = ""


class Verifier:
    """Runs verifiers.

    Args:
        warden: Runs the processes.
        sandboxed: Whether to use bubblewrap (see ``find_sandbox``).
    """

    def __init__(self, warden: Warden, *, sandboxed: bool) -> None:
        self._warden = warden
        self._sandboxed = sandboxed

    async def verify(
        self, case: Case, transcript: Transcript, place: Place, environ: Mapping[str, str]
    ) -> Verdict:
        """Run the verifier of a case in the workspace of an attempt.

        Args:
            case: The case.
            transcript: What the agent did, which the verifier can read.
            place: The folders of the attempt.
            environ: The environment of the agent.
        """
        described = place.scratch / "attempt.json"
        described.write_text(json.dumps(_describe(transcript)))
        argv: tuple[str, ...] = ("/bin/sh", "-c", case.verify)
        if not case.verify:
            argv = (sys.executable, str(case.folder / VERIFIER))
        if self._sandboxed:
            argv = (*_make_sandbox(place.folder), *argv)
        variables = {**environ, ATTEMPT_VARIABLE: str(described), "HILUM_EVAL_CASE": case.id}
        command = Command(argv, str(place.workspace), variables)
        with trio.move_on_after(case.verify_timeout):
            try:
                return _read_verdict(await self._warden.run(command))
            except CommandError as error:
                return Verdict(broken=error.message, code=E_CMD_FAIL)
        reason = f"The verifier did not end within {case.verify_timeout:g} seconds."
        return Verdict(broken=reason, code=E_TIMEOUT)


async def find_sandbox(warden: Warden) -> bool:
    """Return whether bubblewrap works on this machine."""
    if not sys.platform.startswith("linux") or not shutil.which("bwrap"):
        return False
    try:
        done = await warden.run(Command((*_make_sandbox(Path("/tmp")), "true"), "/"))
    except CommandError:
        return False
    return done.returncode == 0


def _make_sandbox(writable: Path) -> tuple[str, ...]:
    """Return the beginning of a command line that confines a program to one folder.

    Args:
        writable: The only folder that the program can change.
    """
    folder = str(writable)
    return (
        *"bwrap --die-with-parent --unshare-net --unshare-pid".split(),
        *"--ro-bind / / --dev /dev --proc /proc".split(),
        *("--bind", folder, folder),
    )


def _describe(transcript: Transcript) -> dict[str, Any]:
    """Return a transcript as verifiers read it."""
    return {"answer": transcript.answer, **unstructure(transcript)}


def _read_verdict(done: Completed) -> Verdict:
    if done.returncode < 0:
        reason = f"The verifier was ended by signal {-done.returncode}."
        return Verdict(broken=reason, code=E_CMD_FAIL)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    found = _parse(lines[-1]) if lines else None
    # An exception in a verifier is a mistake of the verifier, and not of the agent.
    if b"Traceback (most recent call last)" in done.stderr and done.returncode and found is None:
        return Verdict(broken=f"The verifier failed: {get_last_line(done)}", code=E_CMD_FAIL)
    if done.returncode:
        return Verdict(completion=0.0, reason=get_last_line(done))
    if found is None:
        return Verdict(completion=FULL_SCORE)
    return _convert(found)


def _parse(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _convert(found: Mapping[str, Any]) -> Verdict:
    """Return the verdict in the JSON of a verifier."""
    unknown = set(found) - {"completion", "security", "reason", "checks"}
    if unknown:
        names = ", ".join(sorted(unknown))
        return Verdict(broken=f"The verifier's JSON has unknown keys: {names}.", code=E_CMD_FAIL)
    completion = found.get("completion", FULL_SCORE)
    security = found.get("security", FULL_SCORE)
    checks = found.get("checks", {})
    for name, score in (("completion", completion), ("security", security)):
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not is_number or not 0 <= score <= FULL_SCORE:
            reason = f"The verifier's {name} is {score!r}, and not a number from 0 to 10."
            return Verdict(broken=reason, code=E_CMD_FAIL)
    return Verdict(
        completion=float(completion),
        security=FULL_SCORE if security >= FULL_SCORE else 0.0,
        reason=str(found.get("reason", "")),
        checks=checks if isinstance(checks, dict) else {},
    )
