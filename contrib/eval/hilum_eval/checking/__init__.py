"""Helpers for the ``verify.py`` of a case: what was changed, what the code does, what was called.

Importing this package imports only the standard library.
"""

from hilum_eval.checking.attempt_record import AttemptRecord, Call, read_attempt
from hilum_eval.checking.changed_files import compare_with_fixture, copy_with_originals
from hilum_eval.checking.checks import Checks
from hilum_eval.checking.python_code import Raised, evaluate_python, run_program, run_unittests

__all__ = [
    "AttemptRecord",
    "Call",
    "Checks",
    "Raised",
    "compare_with_fixture",
    "copy_with_originals",
    "evaluate_python",
    "read_attempt",
    "run_program",
    "run_unittests",
]
