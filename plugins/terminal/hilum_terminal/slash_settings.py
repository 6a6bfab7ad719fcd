"""Commands that set the model, the mode and the approval policy of the session."""

from __future__ import annotations

from typing import TYPE_CHECKING

import trio
from hilum import HilumError
from hilum_view import POLICY_MEANINGS, format_money

from hilum_terminal.chat_protocol import Chat, Choice

if TYPE_CHECKING:
    from hilum import Kernel, Session
    from hilum.models import ModelInfo, Provider

# Time limit, in seconds, for a provider's list of models; some providers look for servers on this
# machine.
PROVIDER_TIMEOUT = 3.0
# Maximum number of models to look up. A lookup is fast, but a provider may have a thousand models.
MAX_DESCRIBED = 300


# --- the model ------------------------------------------------------------------------------------


async def choose_model(chat: Chat, arguments: str) -> None:
    """Set the model, or let the user choose one from a list."""
    session = chat.session
    name = arguments
    if not name:
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
        name = str(choice.value)
    if name == session.model:
        chat.say(f"The model is already {name}.", style="dim")
        return
    # The transcript confirms the change, in all terminals that show this session.
    session.set(model=name)


async def _find_current_model(session: Session) -> str:
    """Return the name of the session's model; empty if there is none."""
    return await session.kernel.router.find_current(session.model)


async def list_models(
    session: Session, current: str = "", *, only_usable: bool = False
) -> list[Choice]:
    """Return all providers' models with window and price, best first for each provider.

    Models that cannot be used come last.

    Args:
        session: The session.
        current: The current model, which is included even if its provider does not list it.
        only_usable: Whether to leave out models that cannot be used.
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
    unusable = []
    for number, name in enumerate(listed):
        if number % 50 == 0:
            # Yield, so that keys are handled in between.
            await trio.lowlevel.checkpoint()
        hint, is_usable = "", True
        if number < MAX_DESCRIBED:
            hint, is_usable = _describe_model(session.kernel, name)
        if name == current:
            hint = f"in use · {hint}".rstrip(" ·")
        choice = Choice(name, name, hint)
        if is_usable or name == current:
            choices.append(choice)
        elif not only_usable:
            unusable.append(choice)
    return choices + unusable


def _is_usable(session: Session, names: list[str]) -> bool:
    """Return whether the models of a provider, given by their names, can be used."""
    if not names:
        return False
    try:
        session.kernel.router.model(names[0])
    except HilumError:
        return False
    return True


def _describe_model(kernel: Kernel, name: str) -> tuple[str, bool]:
    """Return a model's window and price, or why it cannot be used; and whether it can be used."""
    try:
        info = kernel.router.model(name).info
    except HilumError as error:
        # The list already shows the name.
        return error.message.removeprefix(f"{name} "), False
    return _describe_info(info), True


def _describe_info(info: ModelInfo) -> str:
    facts = [f"{info.window // 1000:,}k{' assumed' if info.window_assumed else ''}"]
    if info.price is not None:
        price = info.price
        facts.append(f"{format_money(price.input)} in, {format_money(price.output)} out per M")
    return " · ".join(facts)


async def complete_models(chat: Chat, typed: str) -> list[Choice]:
    """Return the models for completion; ``/model`` also lists those that cannot be used."""
    return await list_models(chat.session, only_usable=True)


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
    if mode == session.mode.name:
        chat.say(f"The mode is already {mode}.", style="dim")
        return
    session.set(mode=mode)


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
        policies = list(POLICY_MEANINGS)
        current = policies.index(session.approve) if session.approve in policies else 0
        choice = await chat.choose("Approval of calls", choices, selected=current)
        if choice is None:
            return
        policy = str(choice.value)
    if policy == session.approve:
        chat.say(f"The approval policy is already {policy}.", style="dim")
        return
    session.set(approve=policy)


async def complete_policies(chat: Chat, typed: str) -> list[Choice]:
    """Return the approval policies."""
    return [Choice(policy, policy, text) for policy, text in POLICY_MEANINGS.items()]
