"""Runs one checker and reads what it prints. Whatever goes wrong with it becomes one line."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import Completed, ToolError

from hilum_lint.diagnostics import SEVERITIES, Diagnostic, one_line
from hilum_lint.parsers import READ_ERRORS, Found
from hilum_lint.project import Use

if TYPE_CHECKING:
    from hilum import Session, Workspace

OUTPUT = 32_000_000
"""Bytes that a checker may print; one that prints more is ended."""
_PLAIN = {"NO_COLOR": "1", "FORCE_COLOR": "0", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
_TELLING = re.compile(r"(?i)\w*(error|fatal|exception)\b.*:|.*\berror:")


@attrs.frozen
class Outcome:
    """What came of running a checker.

    Args:
        use: The checker and where.
        found: What it found.
        problem: Why there is nothing, one line; empty if it ran well.
        seconds: How long it took.
        late: Whether it took too long.
    """

    use: Use
    found: tuple[Diagnostic, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    late: bool = False


class _TooMuch(Exception):
    pass


async def check(
    session: Session,
    use: Use,
    targets: Sequence[Path],
    seconds: float,
    *,
    text: bytes | None = None,
) -> Outcome:
    """Run a checker. Cancelling this ends its whole process tree.

    Args:
        session: The session.
        use: The checker and where.
        targets: Files and folders; what it finds elsewhere is left out. Without any it checks what
            its configuration names.
        seconds: How long it may take.
        text: Check this instead of what stands in the one file that is the target.
    """
    if not use.program:
        return Outcome(use, problem=use.problem)
    if seconds <= 0:
        return Outcome(use, problem="there was no time left for it")
    begun = trio.current_time()
    printed = 0

    def count(_: str, chunk: bytes) -> None:
        nonlocal printed
        printed += len(chunk)
        if printed > OUTPUT:
            raise _TooMuch

    done = None
    try:
        with trio.move_on_after(seconds):
            done = await session.processes.run(
                [use.program, *_arguments(use, targets, text is not None)],
                cwd=use.folder,
                env={**_PLAIN, **use.checker.env},
                input=text or b"",
                on_output=count,
                limit=2 * OUTPUT,
            )
    except _TooMuch:
        return Outcome(use, problem=f"it printed more than {OUTPUT // 1_000_000} MB and was ended")
    except ToolError as error:
        return Outcome(use, problem=one_line(str(error)))
    took = trio.current_time() - begun
    if done is None:
        return Outcome(
            use,
            problem=f"it took longer than {seconds:.3g} s and was ended",
            seconds=took,
            late=True,
        )
    outcome = await trio.to_thread.run_sync(_read, use, done, session.workspace, targets)
    return attrs.evolve(outcome, seconds=took)


def is_whole(use: Use, targets: Sequence[Path]) -> bool:
    """Return whether a checker looks at all that its configuration names, because it can do nothing
    else, or because that is asked.
    """
    return not use.checker.files or (bool(use.whole) and use.folder in targets)


def _arguments(use: Use, targets: Sequence[Path], is_text: bool) -> list[str]:
    if is_text:
        return [str(targets[0]) if part == "{file}" else part for part in use.checker.text]
    if not targets or is_whole(use, targets):
        return list(use.whole)
    paths = [
        str(target) for target in targets
    ]  # absolute, so that none of them looks like an option
    return [each for part in use.checker.files for each in (paths if part == "{files}" else [part])]


def _read(use: Use, done: Completed, workspace: Workspace, targets: Sequence[Path]) -> Outcome:
    stdout = done.stdout.decode(errors="replace")
    stderr = done.stderr.decode(errors="replace")

    @functools.cache
    def shown(path: str) -> str:
        """The path as it is shown.

        Empty for one that was not asked about, or is outside the workspace.
        """
        real = (use.folder / path).resolve()
        is_inside = any(real.is_relative_to(root) for root in workspace.roots)
        # One that is no source is told in any case: then the configuration is wrong.
        is_source = real.name.endswith(use.checker.suffixes)
        is_asked = (
            not targets or not is_source or any(real.is_relative_to(target) for target in targets)
        )
        if is_inside and is_asked:
            return one_line(workspace.relative(real))
        return ""

    try:
        parsed = [(shown(each.path), each) for each in use.checker.parse(stdout, stderr)]
        found = dict.fromkeys(_diagnostic(use, path, each) for path, each in parsed if path)
    except READ_ERRORS:
        return Outcome(use, problem=_reason(stderr, stdout) or "what it printed could not be read")
    if not parsed and done.returncode:
        if done.returncode < 0:
            ended = f"signal {-done.returncode}"
        else:
            ended = f"exit code {done.returncode}"
        return Outcome(use, problem=f"{_reason(stderr, stdout)} ({ended})".strip())
    return Outcome(use, tuple(found))


def _diagnostic(use: Use, path: str, found: Found) -> Diagnostic:
    """Create a diagnostic of a finding.

    Raises ``READ_ERRORS`` if something in it is not what it should be.
    """
    severity = found.severity if found.severity in SEVERITIES else "error"
    code = one_line(found.code, 60)
    message = one_line(found.message)
    return Diagnostic(
        path, int(found.line), int(found.column), severity, code, message, use.checker.name
    )


def _reason(*outputs: str) -> str:
    """Choose the line that says why a program failed: the first that speaks of an error, else the
    last.
    """
    for output in outputs:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        if lines:
            return one_line(next((line for line in lines if _TELLING.match(line)), lines[-1]), 200)
    return ""
