"""What an editor's user can choose in a session: the mode, the model and the approval policy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, get_args

import trio
from hilum import ModelAccess, ProviderStatus, Session, UsageError
from hilum.errors import E_BAD_ARGS
from hilum.settings import Approve
from hilum_view import POLICY_MEANINGS

MODE = "mode"
MODEL = "model"
APPROVE = "approve"
MAX_MODELS = 300
SURVEY_SECONDS = 1.0
"""How long the opening of a session waits for the lists of model servers on this machine."""
_POLICY_NAMES = {"ask_first": "Ask first", "auto": "Automatic", "readonly": "Read only"}


async def list_models(session: Session) -> list[str]:
    """Return the names of the models that can be used, as `hilum models` lists them.

    Only servers on this machine are asked, and only for a moment, because the editor waits.
    """
    access = session.kernel.plugin(ModelAccess)
    if access is None:
        return []
    statuses: Sequence[ProviderStatus] | None = None
    with trio.move_on_after(SURVEY_SECONDS):
        statuses = await access.survey_models(session.kernel)
    if statuses is None:
        statuses = await access.survey_models(session.kernel, known_only=True)
    found: dict[str, None] = {}
    for status in statuses:
        if status.usable:
            found.update(dict.fromkeys(info.name for info in status.models))
    return list(found)[:MAX_MODELS]


async def find_current_model(session: Session) -> str:
    """Return the name of the session's model; empty if there is none."""
    return await session.kernel.router.find_current(session.model)


def describe_modes(session: Session) -> dict[str, Any]:
    """Return the modes of a session, for editors that know no options."""
    modes = []
    for mode in session.modes.values():
        described = {"id": mode.name, "name": mode.name.capitalize()}
        if mode.description:
            described["description"] = mode.description
        modes.append(described)
    return {"currentModeId": session.mode.name, "availableModes": modes}


async def describe_options(session: Session, models: Sequence[str]) -> list[dict[str, Any]]:
    """Return the options of a session with their values.

    Args:
        session: The session.
        models: The names of the models to choose from.
    """
    modes = []
    for mode in session.modes.values():
        modes.append(_value(mode.name, mode.name.capitalize(), mode.description))
    options = [_select(MODE, "Mode", "mode", session.mode.name, modes)]
    current = await find_current_model(session)
    if current:
        names = models if current in models else [current, *models]
        values = [_value(name, name) for name in names]
        options.append(_select(MODEL, "Model", "model", current, values))
    policies = []
    for policy in get_args(Approve):
        name = _POLICY_NAMES.get(policy, policy)
        policies.append(_value(policy, name, POLICY_MEANINGS.get(policy, "")))
    # The protocol has no category for approvals; names of our own begin with an underscore.
    options.append(_select(APPROVE, "Approval", "_approval", session.approve, policies))
    return options


def set_option(session: Session, option: str, value: object, models: Sequence[str]) -> None:
    """Change an option of a session.

    Args:
        session: The session.
        option: The id of the option.
        value: The new value.
        models: The names of the models to choose from.

    Raises:
        UsageError: The option or the value does not exist.
    """
    if option not in (MODE, MODEL, APPROVE) or not isinstance(value, str):
        raise UsageError(
            f"There is no option {option!r} with the value {value!r:.100}.",
            code=E_BAD_ARGS,
            hint=f"The options are {MODE}, {MODEL} and {APPROVE}; their values are texts.",
        )
    if option == MODEL and value not in models and value != session.model:
        raise UsageError(
            f"The model {value!r:.100} is not among the choices.",
            code=E_BAD_ARGS,
            hint="To use another one, start hilum with --model, or name it in the settings.",
        )
    session.set(**{option: value})


def _select(
    identity: str, name: str, category: str, current: str, values: list[dict[str, str]]
) -> dict[str, Any]:
    return {
        "id": identity,
        "name": name,
        "category": category,
        "type": "select",
        "currentValue": current,
        "options": values,
    }


def _value(value: str, name: str, description: str = "") -> dict[str, str]:
    described = {"value": value, "name": name}
    if description:
        described["description"] = description
    return described
