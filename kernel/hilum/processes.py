"""Child processes: how any plugin starts one.

``hilum_warden`` does the work; here its errors become those of tools.
"""

import hilum_warden
from hilum_warden import Command, Completed, Process, ProcessError, Processes

from hilum.errors import ToolError

__all__ = ["Command", "CommandError", "Completed", "Process", "Processes", "Warden"]


class CommandError(ToolError, ProcessError):
    """A command could not be started, or what watches over it was killed."""

    code = "E_CMD_FAIL"


class Warden(hilum_warden.Warden):
    """The process that holds all child processes of a kernel."""

    error = CommandError
