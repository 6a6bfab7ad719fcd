"""Loads modules of this package on first use: ``lazy.catalog.load_catalog(…)``.

The MCP library takes half a second to import (``tests/benchmarks/start.py``). A session without a
running server needs neither this library nor the readers of configuration files. With this module,
few other modules need imports inside functions.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hilum_mcp import address_check as address_check
    from hilum_mcp import approvals as approvals
    from hilum_mcp import catalog as catalog
    from hilum_mcp import command as command
    from hilum_mcp import commands as commands
    from hilum_mcp import config_reader as config_reader
    from hilum_mcp import connection as connection
    from hilum_mcp import connector as connector
    from hilum_mcp import discovery as discovery
    from hilum_mcp import entries as entries
    from hilum_mcp import executed_files as executed_files
    from hilum_mcp import file_formats as file_formats
    from hilum_mcp import http_transport as http_transport
    from hilum_mcp import loopback as loopback
    from hilum_mcp import machine_login as machine_login
    from hilum_mcp import oauth as oauth
    from hilum_mcp import oauth_models as oauth_models
    from hilum_mcp import prompt_commands as prompt_commands
    from hilum_mcp import results as results
    from hilum_mcp import sampling as sampling
    from hilum_mcp import serve_command as serve_command
    from hilum_mcp import server_requests as server_requests
    from hilum_mcp import session_cache as session_cache
    from hilum_mcp import session_servers as session_servers
    from hilum_mcp import tool_names as tool_names


def load(*names: str) -> None:
    """Import modules of this package."""
    for name in names:
        import_module(f"hilum_mcp.{name}")


def __getattr__(name: str) -> ModuleType:
    path = f"hilum_mcp.{name}"
    try:
        return import_module(path)
    except ModuleNotFoundError as error:
        if error.name != path:
            raise
        # Code that inspects modules, such as pluggy, looks for attributes that no module has.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}") from None
