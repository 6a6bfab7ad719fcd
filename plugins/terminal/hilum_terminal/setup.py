"""The guided setup of a model, at the first start and with ``/setup``.

The setup looks for API keys in the environment and for servers on this machine, lets the user
choose, sends one small request, and stores the choice in the user's settings. If a model can be
used without asking, the setup asks nothing. A key is never stored in a project, and a key from an
environment variable is not stored at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import trio
from hilum import HilumError, ModelAccess, ModelError, ProviderStatus, UsageError, config_folder
from hilum.settings import FILE, ChangeError, change

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.model_texts import describe_model
from hilum_terminal.setup_server import ServerSetup
from hilum_terminal.text_width import one_line

if TYPE_CHECKING:
    from hilum import Session
    from hilum.models import ModelInfo

MODEL_VARIABLE = "HILUM_MODEL"
# Maximum number of one server's models to offer; others can be named with --model.
MAX_MODELS = 15
# Descriptions of what each policy does with calls that have effects.
POLICIES = {
    "ask_first": "hilum asks before it changes a file, runs a command or uses the network.",
    "auto": "hilum changes files without asking, and runs commands that the sandbox confines.",
    "readonly": "hilum only reads: every change and every command is denied.",
}
EXPLANATION = """\
hilum needs a language model. There are three ways to one:
  1. A key in an environment variable: export ANTHROPIC_API_KEY=… (or OPENAI_API_KEY,
     GEMINI_API_KEY, OPENROUTER_API_KEY …), then start hilum again.
  2. A key that you enter here. hilum keeps it outside of your projects: in the system's keyring,
     or in a file that only you can read.
  3. A server: start Ollama, LM Studio, llama.cpp or vLLM on this machine on its usual port, or
     enter the address of another server here, such as http://gpu:8000/v1."""
# The beginning of the kernel's message if no model is set and none was found.
NO_MODEL_MESSAGE = "There is no model to work with."
LEFT = "No model was chosen. /setup starts this again."


@attrs.frozen
class UseModel:
    """The choice of a model."""

    name: str


@attrs.frozen
class ListModels:
    """The choice of a provider, which is then asked for its models."""

    provider: str


@attrs.frozen
class EnterKey:
    """The choice to enter a key for a provider, with the model for testing the key."""

    provider: str
    model: str


@attrs.frozen
class LookAgain:
    """The choice to look for servers again."""


@attrs.frozen
class AddServer:
    """The choice to enter the address of a server."""


Step = UseModel | ListModels | EnterKey | AddServer | LookAgain


def describe_policy(session: Session) -> str:
    """Return a sentence that says what happens to calls with effects."""
    text = POLICIES.get(session.approve, f"The approval policy is {session.approve}.")
    return f"{text} /approve changes this."


async def ensure_model(asker: Chat) -> str:
    """Return the model of a session; ask for one only if none can be used.

    Returns:
        ``provider/name``; empty if the user left the setup.
    """
    router = asker.session.kernel.router
    try:
        name = router.resolve(asker.session.model or "") or await router.default()
        router.model(name)
    except UsageError as error:
        # A missing model is not a mistake, and the setup explains what to do. The rest of the
        # message is about a server or a model that the user has named.
        problem = error.message.removeprefix(NO_MODEL_MESSAGE).strip()
        if problem:
            asker.say(one_line(problem), style="warning")
        return await set_up(asker)
    return name


async def set_up(asker: Chat) -> str:
    """Let the user choose a model, test it with one request, and store the choice.

    Returns:
        ``provider/name``; empty if the user left the setup or no plugin provides access to models.
    """
    access = asker.session.kernel.plugin(ModelAccess)
    if access is None:
        hint = "`hilum plugins` shows why the plugin models is not loaded."
        asker.show_error(
            UsageError("No plugin that provides access to models is loaded.", hint=hint)
        )
        return ""
    name = await _SetUp(asker, access).run()
    if not name:
        asker.say(_describe_leaving(asker.session), style="dim")
    return name


def _describe_leaving(session: Session) -> str:
    """Return what it means that the user left the setup: which model is used, if any."""
    router = session.kernel.router
    name = router.resolve(session.model)
    try:
        router.model(name)
    except HilumError:
        return LEFT
    return f"Nothing was changed. The model is still {one_line(name)}."


class _SetUp:
    """One pass through the guided setup."""

    def __init__(self, asker: Chat, access: ModelAccess) -> None:
        self._asker = asker
        self._access = access
        self._session = asker.session
        self._kernel = asker.session.kernel
        self._server = ServerSetup(asker, access)

    async def run(self) -> str:
        """Ask until a model responds or the user leaves; return the model's name."""
        found = await self._survey()
        if not any(status.usable and status.address for status in found):
            self._asker.say(EXPLANATION)
        title = "Which model do you want to use?"
        choices = _choices(found)
        selected = _find_current(choices, self._kernel.router.resolve("default"))
        while True:
            chosen = await self._asker.choose(title, choices, selected=selected)
            if chosen is None:
                return ""
            # After a failure, the same choice is selected again, so that Enter retries it.
            selected = next((i for i, each in enumerate(choices) if each is chosen), 0)
            name = await self._take(chosen.value)
            if name:
                return name
            if isinstance(chosen.value, LookAgain):
                title = "Which model do you want to use?"
                choices = _choices(await self._survey())
                selected = 0
            else:
                title = "Try again, or choose another model"

    async def _survey(self) -> Sequence[ProviderStatus]:
        self._asker.say("Looking for keys and for servers on this machine …", style="dim")
        return await self._access.survey_models(self._kernel)

    async def _take(self, step: object) -> str:
        """Carry out a choice; return the name of the model, or an empty string."""
        if isinstance(step, UseModel):
            return await self._use(step.name)
        if isinstance(step, ListModels):
            return await self._choose_listed(step.provider)
        if isinstance(step, EnterKey):
            return await self._enter_key(step)
        if isinstance(step, AddServer):
            name = await self._server.add()
            if name:
                await self._store(name)
            return name
        return ""

    async def _use(self, name: str) -> str:
        """Test a model and use it from now on; return its name, or an empty string."""
        try:
            await self._test(name)
        except HilumError as error:
            self._asker.show_error(error)
            return ""
        await self._store(name)
        return name

    async def _test(self, name: str, key: str = "") -> None:
        self._asker.say(f"Sending one small request to {one_line(name)} …", style="dim")
        done = await self._access.test_model(self._kernel, name, key=key)
        self._asker.say(f"{one_line(name)} responded in {done.seconds:.1f} s.", style="good")

    async def _choose_listed(self, provider: str) -> str:
        """Let the user choose from a provider's list of models."""
        (status,) = await self._access.survey_models(self._kernel, provider)
        if not status.models:
            text = f"{status.name}: {status.message}. {status.hint}".strip()
            self._asker.say(one_line(text), style="bad")
            return ""
        choices = [_choice(status, info) for info in status.models]
        chosen = await self._asker.choose(f"Models of {one_line(provider)}", choices)
        if chosen is None or not isinstance(chosen.value, UseModel):
            return ""
        return await self._use(chosen.value.name)

    async def _enter_key(self, step: EnterKey) -> str:
        """Ask for a key, test it, and keep it only if the provider accepts it."""
        provider = one_line(step.provider)
        key = await self._asker.ask(f"Your key for {provider} (it is not shown)", secret=True)
        if key is None or not key.strip():
            return ""
        rejected: HilumError | None = None
        try:
            await self._test(step.model, key)
        except HilumError as error:
            self._asker.show_error(error)
            rejected = error
        # The provider accepts the key but does not know the model; another model in its list may
        # work.
        is_other_model = isinstance(rejected, ModelError) and rejected.status == 404
        if rejected is not None and not is_other_model:
            return ""
        try:
            place = await self._access.store_key(self._kernel, step.provider, key)
        except HilumError as error:
            self._asker.show_error(error)
            return ""
        self._asker.say(f"The key is kept in {one_line(place)}.")
        if is_other_model:
            return await self._choose_listed(step.provider)
        await self._store(step.model)
        return step.model

    async def _store(self, name: str) -> None:
        """Use a model in this session, and store it in the user's settings."""
        self._kernel.router.roles["default"] = name
        self._session.set(model=name)
        environ = self._kernel.environ
        path = config_folder(environ) / FILE
        try:
            await trio.to_thread.run_sync(partial(change, path, "model", name))
        except (ChangeError, HilumError) as error:
            self._asker.say(f"This choice applies only to this session: {error}", style="warning")
            return
        text = f"{one_line(name)} is now your model, also in new sessions"
        self._asker.say(f"{text} (setting model in {_short(path)}).")
        if environ.get(MODEL_VARIABLE) not in (None, "", name):
            text = f"{MODEL_VARIABLE} is set, and takes precedence the next time hilum starts."
            self._asker.say(text, style="warning")


def _short(path: Path) -> str:
    """Return a path below the home folder with ``~``."""
    try:
        return f"~/{path.relative_to(Path.home())}"
    except (ValueError, RuntimeError):
        return str(path)


# --- choices --------------------------------------------------------------------------------------


def _choices(found: Sequence[ProviderStatus]) -> list[Choice]:
    """Return the choices: first the usable models, then the providers that need a key."""
    choices = []
    for status in found:
        if not status.usable or not status.address:
            continue
        choices += [_choice(status, info) for info in status.models[:MAX_MODELS]]
        left = len(status.models) - MAX_MODELS
        if left > 0:
            label = f"{one_line(status.name)}: {left} more models …"
            choices.append(Choice(ListModels(status.name), label))
        if not status.models:
            label = f"{one_line(status.name)}: request its list of models …"
            choices.append(Choice(ListModels(status.name), label, one_line(status.address)))
    for status in found:
        if status.state == "no_key" and status.models:
            label = f"Enter a key for {one_line(status.name)} …"
            choices.append(Choice(EnterKey(status.name, status.models[0].name), label))
    hint = "its base URL, and a key if it requires one"
    choices.append(Choice(AddServer(), "A server at another address …", hint))
    starting = [status for status in found if status.state in ("no_server", "no_models")]
    preview = "\n".join(f"{status.name}: {status.message}. {status.hint}" for status in starting)
    choices.append(Choice(LookAgain(), "Look again, after starting a local server", "", preview))
    return choices


def _choice(status: ProviderStatus, info: ModelInfo) -> Choice:
    """Return the choice of a model, with its window and price if they are known."""
    return Choice(UseModel(info.name), one_line(info.name), describe_model(status, info))


def _find_current(choices: Sequence[Choice], name: str) -> int:
    """Return the index of the current model among the choices, or 0 if it is not among them."""
    for index, choice in enumerate(choices):
        if choice.value == UseModel(name):
            return index
    return 0
