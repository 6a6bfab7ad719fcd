"""Runs one checker and reads its output; any failure is reported in one line."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import Completed, ToolError

from hilum_lint.diagnostics import SEVERITIES, Diagnostic, to_one_line
from hilum_lint.parsers import READ_ERRORS, Finding
from hilum_lint.project import CheckerUse

if TYPE_CHECKING:
    from hilum import Session, Workspace

# Maximum size, in bytes, of a checker's output; hilum ends a checker that prints more.
MAX_OUTPUT = 32_000_000
# A shell script that starts a checker with a memory limit. A configuration may name any file, such
# as /dev/zero, which a checker would read until no memory is left. The limit applies to data (-d),
# because node and Go reserve far more address space (-v) than they use.
_LIMITED = 'ulimit -d "$0" 2>/dev/null; exec "$@"'
_OUT_OF_MEMORY = re.compile(
    r"(?i)out of memory|MemoryError|memory allocation of|bad_alloc|cannot allocate memory"
)
_PLAIN = {"NO_COLOR": "1", "FORCE_COLOR": "0", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
_TELLING = re.compile(r"(?i)\w*(error|fatal|exception)\b.*:|.*\berror:")


@attrs.frozen
class CheckOutcome:
    """The outcome of running a checker.

    Args:
        use: The checker and its folder.
        found: The diagnostics.
        problem: Why there are no diagnostics, on one line; empty if the checker succeeded.
        seconds: Duration in seconds.
        late: Whether the checker exceeded the time limit.
        excessive: Whether the checker was ended by a signal or because it exceeded a limit on time,
            memory or output. Running it again would probably fail in the same way.
        read_as_saved: Names of the files that the checker read as they are saved, although the
            user's editor has other text of them.
    """

    use: CheckerUse
    found: tuple[Diagnostic, ...] = ()
    problem: str = ""
    seconds: float = 0.0
    late: bool = False
    excessive: bool = False
    read_as_saved: tuple[str, ...] = ()


class _TooMuch(Exception):
    pass


async def run_checker(
    session: Session,
    use: CheckerUse,
    targets: Sequence[Path],
    seconds: float,
    *,
    text: bytes | None = None,
) -> CheckOutcome:
    """Run a checker. Cancelling this function ends the whole process tree.

    Args:
        session: The session.
        use: The checker and its folder.
        targets: Files and folders; diagnostics elsewhere are dropped. If empty, everything named in
            the configuration is checked.
        seconds: Time limit.
        text: Text to check instead of the content of the only target.
    """
    if not use.program:
        return CheckOutcome(use, problem=use.problem)
    # Without any time left, a process would be started only to be ended immediately.
    if seconds <= 0:
        return CheckOutcome(use, problem="there was no time left for it")
    begun = trio.current_time()
    program = [use.program, *_arguments(use, targets, text is not None)]
    printed = 0

    def count(_: str, chunk: bytes) -> None:
        nonlocal printed
        printed += len(chunk)
        if printed > MAX_OUTPUT:
            raise _TooMuch

    done = None
    try:
        with trio.move_on_after(seconds):
            done = await session.processes.run(
                # `ulimit` counts in units of 1,024 bytes.
                ["/bin/sh", "-c", _LIMITED, str(use.checker.memory // 1024), *program],
                cwd=use.folder,
                # Colors and wide terminals would change the output that is parsed.
                env={**_PLAIN, **use.checker.env},
                input=text or b"",
                on_output=count,
                limit=2 * MAX_OUTPUT,
                purpose="check" if use.checker.code else "look",
            )
    except _TooMuch:
        return CheckOutcome(
            use,
            problem=f"it printed more than {MAX_OUTPUT // 1_000_000} MB and was ended",
            excessive=True,
        )
    except ToolError as error:
        return CheckOutcome(use, problem=to_one_line(str(error)))
    took = trio.current_time() - begun
    if done is None:
        return CheckOutcome(
            use,
            problem=f"it took longer than {seconds:.3g} s and was ended",
            seconds=took,
            late=True,
            excessive=True,
        )
    outcome = await trio.to_thread.run_sync(_read, use, done, session.workspace, targets)
    return attrs.evolve(outcome, seconds=took)


def checks_everything(use: CheckerUse, targets: Sequence[Path]) -> bool:
    """Return whether a checker checks everything named in its configuration.

    A checker does so if it cannot check single files or if its folder is a target.
    """
    return not use.checker.files or (bool(use.whole) and use.folder in targets)


def _arguments(use: CheckerUse, targets: Sequence[Path], is_text: bool) -> list[str]:
    if is_text:
        return [str(targets[0]) if part == "{file}" else part for part in use.checker.text]
    if not targets or checks_everything(use, targets):
        return list(use.whole)
    arguments: list[str] = []
    for part in use.checker.files:
        if part == "{files}":
            # Absolute paths cannot be mistaken for options.
            arguments += map(str, targets)
        else:
            arguments.append(part)
    return arguments


def _read(
    use: CheckerUse, done: Completed, workspace: Workspace, targets: Sequence[Path]
) -> CheckOutcome:
    stdout = done.stdout.decode(errors="replace")
    stderr = done.stderr.decode(errors="replace")

    @functools.cache
    def shown(path: str) -> str:
        """Return a path for display; empty if diagnostics in the file are dropped."""
        real = (use.folder / path).resolve()
        is_inside = any(real.is_relative_to(root) for root in workspace.roots)
        # A diagnostic in a file that is not a source file concerns the configuration, so it is
        # shown even if the file is not a target.
        is_source = real.name.endswith(use.checker.suffixes)
        is_target = not targets or any(real.is_relative_to(target) for target in targets)
        if is_inside and (is_target or not is_source):
            return to_one_line(workspace.relative(real))
        return ""

    try:
        parsed = [(shown(each.path), each) for each in use.checker.parse(stdout, stderr)]
        found = dict.fromkeys(_make_diagnostic(use, path, each) for path, each in parsed if path)
    except READ_ERRORS:
        reason = _find_reason(stderr, stdout) or "its output could not be parsed"
        return CheckOutcome(use, problem=reason, excessive=_was_ended(done, stderr))
    # Many checkers exit with a non-zero code when they find something, so the code counts only if
    # there are no findings.
    if not parsed and done.returncode:
        ended = f"exit code {done.returncode}"
        if done.returncode < 0:
            ended = f"signal {-done.returncode}"
        reason = f"{_find_reason(stderr, stdout)} ({ended})".strip()
        if _OUT_OF_MEMORY.search(stderr):
            reason = f"it needed more than {use.checker.memory // 1_000_000:,} MB of memory"
        return CheckOutcome(use, problem=reason, excessive=_was_ended(done, stderr))
    return CheckOutcome(use, tuple(found))


def _was_ended(done: Completed, stderr: str) -> bool:
    """Return whether a checker was ended by a signal or ran out of memory."""
    return done.returncode < 0 or (done.returncode > 0 and bool(_OUT_OF_MEMORY.search(stderr)))


def _make_diagnostic(use: CheckerUse, path: str, found: Finding) -> Diagnostic:
    """Create a diagnostic; an invalid finding raises one of ``READ_ERRORS``."""
    # Newer checker versions may report an unknown severity.
    severity = found.severity if found.severity in SEVERITIES else "error"
    code = to_one_line(found.code, 60)
    message = to_one_line(found.message)
    line = int(found.line)
    column = int(found.column)
    return Diagnostic(path, line, column, severity, code, message, use.checker.name)


def _find_reason(*outputs: str) -> str:
    """Return the line that explains why a program failed.

    The first line that mentions an error is preferred to the last line.
    """
    for output in outputs:
        lines = [line.strip() for line in output.splitlines() if line.strip()]
        if lines:
            telling = [line for line in lines if _TELLING.match(line)]
            return to_one_line([*telling, lines[-1]][0], 200)
    return ""
