"""Agent definitions, read from files in any supported dialect."""

from hilum_agents.definitions.definition import Definition, Permission
from hilum_agents.definitions.loading import load_definition
from hilum_agents.definitions.permissions import judge

__all__ = ["Definition", "Permission", "judge", "load_definition"]
