"""Commands that set the model, the mode and the approval policy of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import HilumError
from hilum_view import format_money

from hilum_terminal.chat_protocol import Chat, Choice

if TYPE_CHECKING:
    from hilum import Kernel, Session
    from hilum.models import ModelInfo, Provider

# Time limit, in seconds, for a provider's list of models; some providers look for servers on this
# machine.
PROVIDER_TIMEOUT = 3.0
# Maximum number of models to look up. A lookup is fast, but a provider may have a thousand models.
MAX_DESCRIBED = 300
# The policies of ``Session.set``.
POLICIES = {
    "ask_first": "Asks before calls that change something, except those that rules allow",
    "auto": "Runs calls without asking, except those for which rules require approval",
    "readonly": "Denies all calls that do more than read",
}


# --- the model ------------------------------------------------------------------------------------


async def choose_model(chat: Chat, arguments: str) -> None:
    """Set the model, or let the user choose one from a list."""
    session = chat.session
    if arguments:
        session.set(model=arguments)
    else:
        current = await _find_current_model(session)
        choices = await list_models(session, current)
        selected = next(
            (index for index, choice in enumerate(choices) if choice.value == current), 0
        )
        choice = await chat.choose(
            "Model", choices, selected=selected, empty="No provider lists any models."
        )
        if choice is None or choice.value == current:
            return
        session.set(model=str(choice.value))
    name = session.kernel.router.resolve(session.model)
    chat.say(f"Model: {name}, from the next turn on.", style="dim")


async def _find_current_model(session: Session) -> str:
    """Return the name of the session's model; empty if there is none."""
    router = session.kernel.router
    name = router.resolve(session.model)
    if name:
        return name
    try:
        return await router.default()
    except HilumError:
        return ""


async def list_models(session: Session, current: str = "") -> list[Choice]:
    """Return all providers' models with window and price, best first for each provider.

    Args:
        session: The session.
        current: The current model, which is included even if its provider does not list it.
    """
    router = session.kernel.router
    names: dict[str, list[str]] = {}

    async def collect(provider: Provider) -> None:
        names[provider.name] = []
        with trio.move_on_after(PROVIDER_TIMEOUT):
            try:
                found = await provider.names()
            except Exception:
                # Any plugin may provide models, and a failing plugin must not hide the other
                # models.
                return
            names[provider.name] = [f"{provider.name}/{name}" for name in found]

    async with trio.open_nursery() as nursery:
        for provider in router.providers.values():
            nursery.start_soon(collect, provider)
    # A user who looks for a model wants one that can be used now.
    usable_first = sorted(router.providers, key=lambda each: not _is_usable(session, names[each]))
    listed = [name for provider in usable_first for name in names[provider]]
    if current and current not in listed:
        listed.insert(0, current)
    choices = []
    for number, name in enumerate(listed):
        if number % 50 == 0:
            # Yield, so that keys are handled in between.
            await trio.lowlevel.checkpoint()
        hint = _describe_model(session.kernel, name) if number < MAX_DESCRIBED else ""
        if name == current:
            hint = f"in use · {hint}".rstrip(" ·")
        choices.append(Choice(name, name, hint))
    return choices


def _is_usable(session: Session, names: list[str]) -> bool:
    """Return whether the models of a provider, given by their names, can be used."""
    if not names:
        return False
    try:
        session.kernel.router.model(names[0])
    except HilumError:
        return False
    return True


def _describe_model(kernel: Kernel, name: str) -> str:
    """Return a model's window and price, or why it cannot be used."""
    try:
        info = kernel.router.model(name).info
    except HilumError as error:
        return error.message
    return _describe_info(info)


def _describe_info(info: ModelInfo) -> str:
    facts = [f"{info.window // 1000:,}k"]
    if info.price is not None:
        price = info.price
        facts.append(f"{format_money(price.input)} in, {format_money(price.output)} out per M")
    return " · ".join(facts)


async def complete_models(chat: Chat, typed: str) -> list[Choice]:
    """Return the models for completion."""
    return await list_models(chat.session)


# --- the mode -------------------------------------------------------------------------------------


async def choose_mode(chat: Chat, arguments: str) -> None:
    """Set the mode, or let the user choose one."""
    session = chat.session
    mode = arguments
    if not mode:
        choices = await complete_modes(chat, "")
        names = [choice.value for choice in choices]
        current = session.mode.name
        selected = names.index(current) if current in names else 0
        choice = await chat.choose("Mode", choices, selected=selected)
        if choice is None:
            return
        mode = str(choice.value)
    session.set(mode=mode)
    chat.say(f"Mode: {session.mode.name}, from the next turn on.", style="dim")


async def complete_modes(chat: Chat, typed: str) -> list[Choice]:
    """Return the modes."""
    modes = chat.session.modes.values()
    return [Choice(mode.name, mode.name, mode.description) for mode in modes]


# --- the approval policy --------------------------------------------------------------------------


async def choose_policy(chat: Chat, arguments: str) -> None:
    """Set the approval policy, or let the user choose one."""
    session = chat.session
    policy = arguments.replace("-", "_")
    if not policy:
        choices = await complete_policies(chat, "")
        policies = list(POLICIES)
        current = policies.index(session.approve) if session.approve in policies else 0
        choice = await chat.choose("Approval of calls", choices, selected=current)
        if choice is None:
            return
        policy = str(choice.value)
    session.set(approve=policy)
    chat.say(f"Approval: {policy}. {POLICIES[policy]}.", style="dim")


async def complete_policies(chat: Chat, typed: str) -> list[Choice]:
    """Return the approval policies."""
    return [Choice(policy, policy, text) for policy, text in POLICIES.items()]
