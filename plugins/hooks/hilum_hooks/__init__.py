"""Plugin hooks on trio: specifications with a shape, calls that isolate each implementation,
supervised lifespans.

pluggy marks, registers and validates; the calls are made here, from a ``Table`` that costs next to
nothing to copy.
"""

from hilum_hooks.failures import FAULTS, is_failure, single, split_failure
from hilum_hooks.lifespans import Lifespans, open_nursery
from hilum_hooks.specs import Manager, Shape, Spec, specifier
from hilum_hooks.supervised import Supervised, call_within
from hilum_hooks.table import ALL_GATES, Fault, HookError, Impl, Observer, Table

__all__ = [
    "ALL_GATES",
    "FAULTS",
    "Fault",
    "HookError",
    "Impl",
    "Lifespans",
    "Manager",
    "Observer",
    "Shape",
    "Spec",
    "Supervised",
    "Table",
    "call_within",
    "is_failure",
    "open_nursery",
    "single",
    "specifier",
    "split_failure",
]
