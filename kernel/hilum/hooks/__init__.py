"""Plugin hooks on trio.

A specification gives a hook its shape, each implementation is called in isolation, and lifespans
are supervised.

pluggy marks, registers, validates and orders implementations (``Registry``). ``Table`` makes the
calls.
"""

from hilum.hooks.current import current_call, current_plugin, running_call, running_plugin
from hilum.hooks.failures import (
    PLUGIN_EXCEPTIONS,
    HookError,
    Mistake,
    PluginFailure,
    describe_error,
    find_first_error,
    is_failure,
    split_failure,
    unwrap_group,
)
from hilum.hooks.lifespans import Lifespans, open_nursery
from hilum.hooks.registry import Implementation, Registry, hook_deadline
from hilum.hooks.specs import Shape, Spec, Specifier, specifier
from hilum.hooks.supervised import Supervised, call_within
from hilum.hooks.table import ALL_GATES, Observer, Table

__all__ = [
    "ALL_GATES",
    "PLUGIN_EXCEPTIONS",
    "HookError",
    "Implementation",
    "Lifespans",
    "Mistake",
    "Observer",
    "PluginFailure",
    "Registry",
    "Shape",
    "Spec",
    "Specifier",
    "Supervised",
    "Table",
    "call_within",
    "current_call",
    "current_plugin",
    "describe_error",
    "find_first_error",
    "hook_deadline",
    "is_failure",
    "open_nursery",
    "running_call",
    "running_plugin",
    "specifier",
    "split_failure",
    "unwrap_group",
]
