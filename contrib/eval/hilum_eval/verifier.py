"""Runs the verifier of a case, which checks the result of an attempt.

The verifier is a program of the case that runs what the agent made, so it runs in a process of its
own with a time limit and, if the machine has bubblewrap, without a network and with write access to
the folders of the attempt only.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import trio
from hilum.errors import E_CMD_FAIL, E_TIMEOUT
from hilum.hooks import describe_error
from hilum.processes import Command, CommandError, Completed, Warden

from hilum_eval.case import Case
from hilum_eval.case_reader import VERIFIER
from hilum_eval.checking.changed_files import RULES_VARIABLE
from hilum_eval.converter import unstructure
from hilum_eval.regular_files import write_regular_file
from hilum_eval.sandbox import make_sandbox, read_end
from hilum_eval.transcript import Transcript
from hilum_eval.workspaces import RULES_FILE, Place, get_last_line

ATTEMPT_VARIABLE = "HILUM_EVAL_ATTEMPT"
"""Environment variable of a verifier with the path of the file that describes the attempt."""
FULL_SCORE = 10.0
# Exit codes of a shell whose command does not exist or cannot be run.
_NOT_STARTED = (126, 127)
_LAST_SIGNAL = 64


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
        is_doubtful: Whether the result of the agent may be the reason why there is no verdict.
    """

    completion: float = 0.0
    security: float = FULL_SCORE
    reason: str = ""
    checks: Mapping[str, Any] = attrs.field(factory=dict)
    broken: str = ""
    code: str = ""
    is_doubtful: bool = False


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
        if not _is_folder(place.workspace):
            # Without a sandbox, an agent can put a link to another folder here, which the verifier
            # could then change.
            return Verdict(completion=0.0, reason="The agent removed its workspace.")
        problem = await trio.to_thread.run_sync(_check_syntax, case)
        if problem:
            return Verdict(broken=problem, code=E_CMD_FAIL)
        described = place.record / "attempt.json"
        write_regular_file(described, json.dumps(_describe(transcript)))
        argv: tuple[str, ...] = ("/bin/sh", "-c", case.verify)
        if not case.verify:
            argv = (sys.executable, str(case.folder / VERIFIER))
        if self._sandboxed:
            argv = (*make_sandbox(filter(_is_folder, place.writable)), *argv)
        variables = {
            **environ,
            ATTEMPT_VARIABLE: str(described),
            RULES_VARIABLE: str(place.record / RULES_FILE),
            "HILUM_EVAL_CASE": case.id,
            # Modules in the home of the agent must not run in the verifier.
            "PYTHONNOUSERSITE": "1",
        }
        command = Command(argv, str(place.workspace), variables)
        with trio.move_on_after(case.verify_timeout):
            try:
                done = await self._warden.run(command)
            except CommandError as error:
                return Verdict(broken=error.message, code=E_CMD_FAIL)
            if self._sandboxed:
                done, started = read_end(done)
                if not started:
                    reason = f"The sandbox could not start the verifier: {get_last_line(done)}"
                    return Verdict(broken=reason, code=E_CMD_FAIL)
            return _read_verdict(done, is_command=bool(case.verify))
        reason = f"The verifier did not end within {case.verify_timeout:g} seconds."
        return Verdict(broken=reason, code=E_TIMEOUT, is_doubtful=True)


def _is_folder(path: Path) -> bool:
    return path.is_dir() and not path.is_symlink()


def _check_syntax(case: Case) -> str:
    """Return why the verifier of a case is no Python program; empty if it is one.

    Python reports a mistake in the syntax with the exit code of a failed check.
    """
    if case.verify:
        return ""
    path = case.folder / VERIFIER
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(path.read_bytes(), str(path), "exec")
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}."
    except (SyntaxError, ValueError) as error:
        return f"The verifier is no Python program: {describe_error(error)}."
    return ""


def _describe(transcript: Transcript) -> dict[str, Any]:
    """Return a transcript as verifiers read it."""
    return {"answer": transcript.answer, **unstructure(transcript)}


def _read_verdict(done: Completed, *, is_command: bool) -> Verdict:
    """Return the verdict of a verifier that has ended.

    Args:
        done: Its exit code and its output.
        is_command: Whether it is a command, and not a program for Python.
    """
    signal = _find_signal(done.returncode)
    if signal:
        return _doubt(f"The verifier was ended by signal {signal}.")
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    found = _parse(lines[-1]) if lines else None
    if found is not None:
        verdict = _convert(found)
        if verdict.broken or not done.returncode:
            return verdict
        reason = get_last_line(done) if done.stderr.strip() else verdict.reason
        return attrs.evolve(verdict, completion=0.0, reason=reason)
    if not done.returncode:
        return Verdict(completion=FULL_SCORE)
    # Test runners print the exceptions of failed tests, but `verify.py` raises none on purpose.
    if not is_command and b"Traceback (most recent call last)" in done.stderr:
        return _doubt(f"The verifier failed: {get_last_line(done)}")
    if is_command and done.returncode in _NOT_STARTED:
        return _doubt(f"The verifier could not be started: {get_last_line(done)}")
    return Verdict(completion=0.0, reason=get_last_line(done))


def _find_signal(code: int) -> int:
    """Return the number of the signal that ended a command; 0 if none did."""
    if code < 0:
        return -code
    # A shell and bubblewrap report the signal of their command in this way.
    return code - 128 if 128 < code <= 128 + _LAST_SIGNAL else 0


def _doubt(reason: str) -> Verdict:
    """Return that there is no verdict, for which the agent may be the reason."""
    return Verdict(broken=reason, code=E_CMD_FAIL, is_doubtful=True)


def _parse(line: str) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _convert(found: Mapping[str, Any]) -> Verdict:
    """Return the verdict in the JSON of a verifier."""
    unknown = set(found) - {"completion", "security", "reason", "checks"}
    if unknown:
        names = ", ".join(sorted(unknown))
        return _doubt(f"The verifier's JSON has unknown keys: {names}.")
    completion = found.get("completion", FULL_SCORE)
    security = found.get("security", FULL_SCORE)
    checks = found.get("checks", {})
    for name, score in (("completion", completion), ("security", security)):
        is_number = isinstance(score, int | float) and not isinstance(score, bool)
        if not is_number or not 0 <= score <= FULL_SCORE:
            reason = f"The verifier's {name} is {score!r}, and not a number from 0 to 10."
            return _doubt(reason)
    return Verdict(
        completion=float(completion),
        security=FULL_SCORE if security >= FULL_SCORE else 0.0,
        reason=str(found.get("reason", "")),
        checks=checks if isinstance(checks, dict) else {},
    )
