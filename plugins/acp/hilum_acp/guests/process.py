"""How the process of a guest is started: its environment, its home folder and its sandbox."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

import attrs
from hilum import ToolDenied, cache_folder

if TYPE_CHECKING:
    from hilum import Agent
    from hilum_agents.definitions.definition import Definition
    from hilum_guard import Guard

KEY_VARIABLES = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GUEST_MODEL_KEY")
"""Variables that look like secrets, but contain only what the proxy accepts in place of a key."""


@attrs.frozen
class GuestCommand:
    """The command of a guest.

    Attributes:
        argv: Program and arguments.
        env: Environment variables to add.
        home: The guest's own home folder, which it may write to.
        network: Whether the guest may use the network.
        read_only: Whether the guest must not write to the workspace.
    """

    argv: tuple[str, ...]
    env: Mapping[str, str] = attrs.field(repr=False)
    home: Path
    network: bool
    read_only: bool


def make_command(
    agent: Agent, definition: Definition, port: int, token: str, model: str
) -> GuestCommand:
    """Return the command that starts a guest.

    Args:
        agent: The agent for which the guest works.
        definition: The agent's file, which has a runner.
        port: The port of the proxy for models.
        token: What the guest sends in place of a key.
        model: Name of the model that answers, without its provider.
    """
    runner = definition.runner
    assert runner is not None
    url = f"http://127.0.0.1:{port}"
    names = {"GUEST_MODEL_URL": url, "GUEST_MODEL_KEY": token, "GUEST_MODEL": model}
    home = find_home(definition)
    env = {
        **names,
        "OPENAI_BASE_URL": f"{url}/v1",
        "OPENAI_API_BASE": f"{url}/v1",
        "OPENAI_API_KEY": token,
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": token,
        "GOOGLE_GEMINI_BASE_URL": url,
        "GEMINI_API_KEY": token,
        "NO_PROXY": "127.0.0.1,localhost",
        "no_proxy": "127.0.0.1,localhost",
        "NO_COLOR": "1",
        "HOME": str(home),
        "XDG_CONFIG_HOME": str(home / ".config"),
        "XDG_DATA_HOME": str(home / ".local/share"),
        "XDG_STATE_HOME": str(home / ".local/state"),
        "XDG_CACHE_HOME": str(home / ".cache"),
    }
    for name, value in runner.env.items():
        env[name] = Template(value).safe_substitute(names)
    argv = tuple(Template(word).safe_substitute(names) for word in runner.command)
    return GuestCommand(argv, env, home, runner.network, not may_write(agent))


def find_home(definition: Definition) -> Path:
    """Return the home folder of a guest.

    Each agent's file has a folder of its own, so that no guest can change what another one reads.
    """
    digest = hashlib.sha256(str(definition.path).encode(errors="surrogateescape")).hexdigest()
    return cache_folder() / "guests" / f"{definition.name}-{digest[:12]}"


def may_write(agent: Agent) -> bool:
    """Return whether an agent may write files, according to the policy, the mode and its file.

    A guest writes without asking, so its sandbox has to enforce what the tools would.
    """
    if agent.session.approve == "readonly":
        return False
    filters = (agent.mode.tools, agent.profile.tools)
    return all(each.admits("write_file", "write") for each in filters)


async def check_sandbox(guard: Guard | None) -> None:
    """Check that there is a sandbox that can restrict a guest.

    Raises:
        ToolDenied: There is no sandbox, or it does not enforce everything.
    """
    hint = "Install bubblewrap, and set guard.sandbox to auto; `hilum doctor` shows the sandbox."
    if guard is None:
        raise ToolDenied("A guest runs only in the sandbox of hilum-guard.", hint=hint)
    reasons = await guard.find_missing_protection()
    if reasons:
        raise ToolDenied(f"A guest runs only in the full sandbox. {reasons[0]}", hint=hint)
