"""The operations of the server, one module for each subject."""

from importlib import import_module

MODULES = (
    "sessions",
    "work",
    "decisions",
    "facts",
    "conversation",
    "searching",
    "choices",
    "session_settings",
    "files",
    "going_back",
    "images",
    "shell",
)
"""The modules with operations; each one adds its own to the table when it is imported."""


def load_operations() -> None:
    """Import all modules with operations."""
    for name in MODULES:
        import_module(f"hilum_serve.api.{name}")
