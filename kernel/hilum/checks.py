"""The checks that ``hilum doctor`` shows: what works on this machine, and how to fix the rest.

A plugin adds checks with an entry point of the group ``hilum.checks``. The entry point names a
function that returns checks; its arguments are the workspace and whether servers may be contacted.
The function is called outside a session, because a session may fail to open.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import Literal, cast, get_args

import msgspec

from hilum.discovery import EntryPoint, entry_points
from hilum.hooks import describe_error

Grade = Literal["ok", "warn", "fail"]
MAX_TEXT = 2_000  # maximum number of characters in a result or a fix
MAX_SUBJECT = 100  # maximum number of characters in a subject
MAX_CHECKS = 1_000  # maximum number of checks from one plugin
TIME_LIMIT = 20.0  # maximum number of seconds for one plugin's checks

CHECKS_GROUP = "hilum.checks"
"""The group of entry points that name functions that return checks."""


class Check(msgspec.Struct, frozen=True):
    """One line of ``hilum doctor``.

    Attributes:
        grade: ``ok``, ``warn`` (hilum works, but something is missing) or ``fail``.
        subject: What was checked, in one or two words.
        found: A sentence about the result.
        fix: What the user can do about the result; empty if nothing needs to be done.
    """

    grade: Grade
    subject: str
    found: str
    fix: str = ""


CheckFunction = Callable[[Path, bool], Iterable[Check]]


def run_checks(folder: Path, *, online: bool = False) -> Iterator[Check]:
    """Yield the checks of all installed plugins, in the order of the plugins' names. Blocks.

    For a plugin whose function fails or takes longer than 20 seconds, one failed check is yielded,
    and the checks of other plugins are still shown. Anything that such a function prints goes to
    standard error.

    Args:
        folder: The workspace whose settings apply.
        online: Whether servers on other machines may be contacted.
    """
    for name, point in entry_points(CHECKS_GROUP).items():
        run = _PluginChecks(point, folder, online)
        # A daemon thread, because a check that hangs must not keep the process from ending.
        thread = threading.Thread(target=run, name=f"checks of {name}", daemon=True)
        with redirect_stdout(sys.stderr):
            thread.start()
            thread.join(TIME_LIMIT)
        if thread.is_alive():
            run.fail(f"could not be checked: it takes longer than {TIME_LIMIT:g} seconds")
        # The list is copied, because a thread that hangs may still add checks.
        yield from tuple(run.checks)


class _PluginChecks:
    """The checks of one plugin, whose code may fail, hang or print.

    Attributes:
        checks: The checks collected so far.
    """

    def __init__(self, point: EntryPoint, folder: Path, online: bool) -> None:
        self.checks: list[Check] = []
        self._point = point
        self._folder = folder
        self._online = online

    def __call__(self) -> None:
        """Run the checks."""
        try:
            check = cast(CheckFunction, self._point.load())
            for row in check(self._folder, self._online):
                # An endless generator would exhaust the memory before the time limit.
                if len(self.checks) == MAX_CHECKS:
                    raise ValueError(f"it returned more than {MAX_CHECKS} checks")
                self.checks.append(_clean(row))
        except BaseException as error:  # any exception here is the plugin's failure
            self.fail(f"could not be checked: {describe_error(error)}")

    def fail(self, found: str) -> None:
        """Add a failed check that names the distribution."""
        fix = f"Update or reinstall {self._point.distribution}."
        self.checks.append(_clean(Check("fail", self._point.name, found, fix)))


def _clean(check: object) -> Check:
    """Return a check with shortened texts, and with its subject and result on one line each.

    With a line break, one plugin could forge the line of another.

    Raises:
        TypeError: The value is not a check.
    """
    if not isinstance(check, Check):
        raise TypeError(f"it returned {type(check).__name__}, not a Check")
    texts = (check.subject, check.found, check.fix)
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("it returned a Check whose texts are not strings")
    # An unknown grade counts as ``fail``, so that a misspelled grade cannot hide a problem.
    grade = check.grade if check.grade in get_args(Grade) else "fail"
    subject = " ".join(check.subject[:MAX_SUBJECT].splitlines())
    found = " ".join(check.found[:MAX_TEXT].splitlines())
    return Check(grade, subject, found, check.fix[:MAX_TEXT])
