"""Keeps tools from writing some files: a gate."""

import json
from fnmatch import fnmatch

from hilum import Agent, Tool, ToolCall, Verdict, deny, hookimpl, section, setting
from hilum.workspace import PathError


@section("protect")
class ProtectSettings:
    """What a user may set under [protect]; a project may not."""

    names: list[str] = setting(
        factory=lambda: ["*.lock"], project=False, help="Names of files that no tool may write."
    )


@hookimpl
def on_tool_call(agent: Agent, call: ToolCall, tool: Tool) -> Verdict | None:
    names = agent.session.settings(ProtectSettings).names
    arguments = json.loads(call.arguments or "{}")
    for path in (arguments[parameter] for parameter in tool.writes if parameter in arguments):
        try:
            real = agent.session.workspace.resolve(path)
        except PathError as error:
            return deny(error.message)
        if any(fnmatch(real.name, name) for name in names):
            return deny(f"{real.name} is protected by the setting protect.names.")
    return None
