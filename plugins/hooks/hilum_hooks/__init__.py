"""Plugin hooks on trio: specifications with a shape, calls that isolate each implementation, supervised lifespans.

pluggy marks, registers and validates; the calls are made here, from a ``Table`` that costs next to nothing to copy.
"""

from hilum_hooks.lifespans import Lifespans, open_nursery
from hilum_hooks.specs import Manager, Shape, Spec, specifier
from hilum_hooks.table import FAULTS, Fault, HookError, Impl, Observer, Table, single

__all__ = [
    "FAULTS",
    "Fault",
    "HookError",
    "Impl",
    "Lifespans",
    "Manager",
    "Observer",
    "Shape",
    "Spec",
    "Table",
    "open_nursery",
    "single",
    "specifier",
]
