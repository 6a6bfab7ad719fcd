"""Turns hilum's errors into error responses of the protocol."""

from __future__ import annotations

from hilum import HilumError, NeedsUser, StoreError, UsageError
from hilum.errors import (
    E_BAD_ARGS,
    E_BUSY,
    E_LLM_AUTH,
    E_NO_MODEL,
    E_NOT_CONFIGURED,
)
from hilum.events import RunEnded

from hilum_acp.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from hilum_acp.messages import AUTHENTICATION_REQUIRED

_LOGIN_CODES = (E_NO_MODEL, E_LLM_AUTH, E_NOT_CONFIGURED)
# Hints of the kernel name things that only the command line can do, such as forking a session.
_BUSY_HINT = "Close the session there first, or begin a new one."


def to_rpc_error(error: HilumError) -> RpcError:
    """Return the error response for an error of hilum.

    Errors of the request, such as an image that is no image, get the number for that.
    """
    number = find_number(error.code)
    if isinstance(error, NeedsUser):
        number = AUTHENTICATION_REQUIRED
    elif number == INTERNAL_ERROR and isinstance(error, UsageError):
        number = INVALID_PARAMS
    is_in_use = isinstance(error, StoreError) and error.code == E_BUSY
    hint = _BUSY_HINT if is_in_use else error.hint
    return make_rpc_error(number, error.code, error.message, hint)


def make_login_error(error: HilumError) -> RpcError:
    """Return the error response of a session that has no usable model."""
    return make_rpc_error(AUTHENTICATION_REQUIRED, error.code, error.message, error.hint)


def find_number(code: str) -> int:
    """Return the protocol's number for a code of hilum."""
    if code in _LOGIN_CODES:
        return AUTHENTICATION_REQUIRED
    return INVALID_PARAMS if code == E_BAD_ARGS else INTERNAL_ERROR


def make_rpc_error(number: int, code: str, message: str, hint: str) -> RpcError:
    """Return an error response with the code and the hint of hilum as its data."""
    return RpcError(number, join_hint(message, hint), {"code": code, "hint": hint})


def describe_failure(ended: RunEnded) -> str:
    """Return why a run failed, and what to do: the same while it runs and when it is loaded."""
    return join_hint(ended.error or "The run failed.", ended.hint)


def join_hint(message: str, hint: str) -> str:
    """Return a message with its hint, if it has one, on a line of its own."""
    return f"{message}\n{hint}" if hint else message
