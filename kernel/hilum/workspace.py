"""The folders a session works in.

``hilum_workspace`` does the work; here its errors become those that tools tell.
"""

import hilum_workspace
from hilum_workspace import Locks, Place

from hilum.errors import ToolError

__all__ = ["Locks", "Place", "Workspace"]


class PathError(ToolError, hilum_workspace.WorkspaceError):
    """A path leads out of the workspace, nothing is there, or the system refuses what is asked."""


class Workspace(hilum_workspace.Workspace):
    """The files below the session's folder, and below those of the setting ``extra_roots``."""

    error = PathError
