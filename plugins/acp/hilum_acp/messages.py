"""The parameters of the protocol's requests, as far as hilum reads them.

Unknown members are ignored, because newer and other clients send some. The contract is the JSON
Schema of the protocol's version 1 (https://agentclientprotocol.com).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from hilum_acp.json_rpc import INVALID_PARAMS, RpcError

PROTOCOL_VERSION = 1
AUTHENTICATION_REQUIRED = -32000
RESOURCE_NOT_FOUND = -32002

T = TypeVar("T")


class Parameters(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base class of parameters."""


class FileAbilities(Parameters, frozen=True):
    """Which files the client reads and writes for the agent."""

    read_text_file: bool = False
    write_text_file: bool = False


class SessionAbilities(Parameters, frozen=True):
    """Which updates a client understands; each is an object if it is supported."""

    compaction: Any = None
    notices: Any = None


class AuthAbilities(Parameters, frozen=True):
    """Which ways to log in a client supports."""

    terminal: bool = False


class ElicitationAbilities(Parameters, frozen=True):
    """Which questions a client can ask the user; each is an object if it is supported."""

    form: Any = None
    url: Any = None


class ClientAbilities(Parameters, frozen=True):
    """What a client can do."""

    fs: FileAbilities = FileAbilities()
    terminal: bool = False
    session: SessionAbilities | None = None
    auth: AuthAbilities | None = None
    elicitation: ElicitationAbilities | None = None

    @property
    def notices(self) -> bool:
        """Whether the client shows notices."""
        return self.session is not None and self.session.notices is not None

    @property
    def compaction(self) -> bool:
        """Whether the client shows compactions."""
        return self.session is not None and self.session.compaction is not None

    @property
    def forms(self) -> bool:
        """Whether the client can ask the user to fill in a form."""
        return self.elicitation is not None and self.elicitation.form is not None

    @property
    def terminal_login(self) -> bool:
        """Whether the client can run a set-up in a terminal."""
        return self.auth is not None and self.auth.terminal


class Initialize(Parameters, frozen=True):
    """The parameters of ``initialize``."""

    protocol_version: int
    client_capabilities: Any = None


class Authenticate(Parameters, frozen=True):
    """The parameters of ``authenticate``."""

    method_id: str


class NewSession(Parameters, frozen=True):
    """The parameters of ``session/new``."""

    cwd: str
    additional_directories: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None


class ExistingSession(Parameters, frozen=True):
    """The parameters of ``session/load`` and ``session/resume``."""

    session_id: str
    cwd: str
    additional_directories: list[str] | None = None
    mcp_servers: list[dict[str, Any]] | None = None


class SessionOnly(Parameters, frozen=True):
    """The parameters of requests that only name a session."""

    session_id: str


class ListSessions(Parameters, frozen=True):
    """The parameters of ``session/list``."""

    cwd: str | None = None
    cursor: str | None = None


class Prompt(Parameters, frozen=True):
    """The parameters of ``session/prompt``."""

    session_id: str
    prompt: list[dict[str, Any]]


class SetMode(Parameters, frozen=True):
    """The parameters of ``session/set_mode``."""

    session_id: str
    mode_id: str


class SetConfigOption(Parameters, frozen=True):
    """The parameters of ``session/set_config_option``."""

    session_id: str
    config_id: str
    value: Any


def read(kind: type[T], given: dict[str, Any]) -> T:
    """Return the parameters of a request.

    Raises:
        RpcError: A parameter is missing or has the wrong type.
    """
    try:
        return msgspec.convert(given, kind)
    except msgspec.ValidationError as error:
        raise RpcError(INVALID_PARAMS, f"The parameters are not valid: {error}.") from None


def read_abilities(given: Any) -> ClientAbilities:
    """Return what a client can do; a part that cannot be read counts as missing.

    The protocol demands this leniency, because newer clients may change a part.
    """
    if not isinstance(given, dict):
        return ClientAbilities()
    found: dict[str, Any] = {}
    for field in msgspec.structs.fields(ClientAbilities):
        try:
            if given.get(field.encode_name) is not None:
                found[field.name] = msgspec.convert(given[field.encode_name], field.type)
        except msgspec.ValidationError:
            continue
    return ClientAbilities(**found)
