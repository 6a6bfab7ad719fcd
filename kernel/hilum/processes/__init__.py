"""Child processes whose whole process trees end with their owner, however the owner dies.

Names are imported at first use, so that the script ``hilum-warden``, which needs only the module
``warden``, starts fast.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilum.processes.client import (
        GRACE,
        Command,
        CommandError,
        CommandLost,
        Completed,
        Process,
        Spare,
        Streams,
        Warden,
    )
    from hilum.processes.processes import Processes
    from hilum.processes.warden import contained
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        home = {"contained": "warden", "Processes": "processes"}.get(name, "client")
        value = globals()[name] = getattr(import_module(f"{__name__}.{home}"), name)
        return value


__all__ = [
    "GRACE",
    "Command",
    "CommandError",
    "CommandLost",
    "Completed",
    "Process",
    "Processes",
    "Spare",
    "Streams",
    "Warden",
    "contained",
]
