"""Records sessions to readable cassettes and plays them as a model, in process or over HTTP.

Names are loaded on first use, so importing this package costs almost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hilum import hookimpl

if TYPE_CHECKING:
    from hilum import Kernel
    from hilum.models import Provider

    from hilum_replay.cassette import Cassette as Cassette
    from hilum_replay.cassette import Exchange as Exchange
    from hilum_replay.cassette import Sent as Sent
    from hilum_replay.cassette_reader import load as load
    from hilum_replay.cassette_reader import loads as loads
    from hilum_replay.cassette_writer import dumps as dumps
    from hilum_replay.cassette_writer import save as save
    from hilum_replay.faults import Fault as Fault
    from hilum_replay.model import CassetteModel as CassetteModel
    from hilum_replay.placeholders import PathPlaceholders as PathPlaceholders
    from hilum_replay.playback import Playback as Playback
    from hilum_replay.provider import CassetteProvider as CassetteProvider
    from hilum_replay.recorder import Recorder as Recorder
    from hilum_replay.recorder import follow as follow
    from hilum_replay.recorder import record as record
    from hilum_replay.rules import RULES as RULES
    from hilum_replay.rules import Rule as Rule
    from hilum_replay.rules import make_rule as make_rule
    from hilum_replay.server import Answer as Answer
    from hilum_replay.server import CassetteServer as CassetteServer
    from hilum_replay.server import serve as serve
    from hilum_replay.wire_request import WireRequest as WireRequest

_NAMES = {
    "cassette": ("Cassette", "Exchange", "Sent"),
    "cassette_reader": ("load", "loads"),
    "cassette_writer": ("dumps", "save"),
    "faults": ("Fault",),
    "model": ("CassetteModel",),
    "placeholders": ("PathPlaceholders",),
    "playback": ("Playback",),
    "provider": ("CassetteProvider",),
    "recorder": ("Recorder", "follow", "record"),
    "rules": ("RULES", "Rule", "make_rule"),
    "server": ("Answer", "CassetteServer", "serve"),
    "wire_request": ("WireRequest",),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = sorted(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'hilum_replay' has no attribute {name!r}")
    value = getattr(import_module(f"hilum_replay.{_MODULES[name]}"), name)
    # The value is stored, so that this function runs only once for each name.
    globals()[name] = value
    return value


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[Provider]:
    """Return the provider ``cassette``, whose model ``cassette/PATH`` plays the file ``PATH``."""
    from hilum_replay.provider import CassetteProvider

    def find_workspace(session: str) -> str:
        found = kernel.sessions.get(session)
        return str(found.workspace.root) if found is not None else ""

    return [CassetteProvider(find_workspace)]
