"""Records sessions to readable cassettes and plays them as a model, in process or over HTTP.

Names are loaded at first use: importing this package costs next to nothing.
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
    from hilum_replay.faults import Fault as Fault
    from hilum_replay.format import dumps as dumps
    from hilum_replay.format import load as load
    from hilum_replay.format import loads as loads
    from hilum_replay.format import save as save
    from hilum_replay.matching import RULES as RULES
    from hilum_replay.matching import Rule as Rule
    from hilum_replay.matching import rule as rule
    from hilum_replay.model import CassetteModel as CassetteModel
    from hilum_replay.places import Places as Places
    from hilum_replay.playback import Playback as Playback
    from hilum_replay.provider import CassetteProvider as CassetteProvider
    from hilum_replay.recorder import Recorder as Recorder
    from hilum_replay.recorder import follow as follow
    from hilum_replay.recorder import record as record
    from hilum_replay.requests import WireRequest as WireRequest
    from hilum_replay.server import Answer as Answer
    from hilum_replay.server import CassetteServer as CassetteServer
    from hilum_replay.server import serve as serve

_HOMES = {
    "cassette": ("Cassette", "Exchange", "Sent"),
    "faults": ("Fault",),
    "format": ("dumps", "load", "loads", "save"),
    "matching": ("RULES", "Rule", "rule"),
    "model": ("CassetteModel",),
    "places": ("Places",),
    "playback": ("Playback",),
    "provider": ("CassetteProvider",),
    "recorder": ("Recorder", "follow", "record"),
    "requests": ("WireRequest",),
    "server": ("Answer", "CassetteServer", "serve"),
}
_HOME = {name: module for module, names in _HOMES.items() for name in names}

__all__ = sorted(_HOME)


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'hilum_replay' has no attribute {name!r}")
    value = getattr(import_module(f"hilum_replay.{_HOME[name]}"), name)
    globals()[name] = value
    return value


@hookimpl
def provide_models(kernel: Kernel) -> Iterable[Provider]:
    """Return the provider ``cassette``: the model ``cassette/PATH`` plays that file."""
    from hilum_replay.provider import CassetteProvider

    def workspace(session: str) -> str:
        found = kernel.sessions.get(session)
        return str(found.workspace.root) if found is not None else ""

    return [CassetteProvider(workspace)]
