"""Trust in folders: a project's content is executed only after the user has trusted the project.

This package contains data and functions, but no policy. Code that loads something from a project
(plugins, skills, agents, MCP servers, checkers) must first call ``is_trusted``.
"""

from __future__ import annotations

from hilum.trust.files import PROJECT_FOLDERS, hash_files, list_files
from hilum.trust.folders import TrustedFolders, explain_distrust, is_trusted

__all__ = [
    "PROJECT_FOLDERS",
    "TrustedFolders",
    "explain_distrust",
    "hash_files",
    "is_trusted",
    "list_files",
]
