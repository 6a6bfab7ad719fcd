"""Operations on the settings that a face may change."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
import trio
from hilum.errors import E_BAD_ARGS
from hilum.settings import FILE, change, config_folder

from hilum_serve.api.choices import find_current_model
from hilum_serve.api.shared_types import change_session_settings, require_right
from hilum_serve.hub import HostedSession
from hilum_serve.operations import Call, operation
from hilum_serve.problems import Problem
from hilum_serve.users import Rights


class SettingFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A setting that a face may change.

    Attributes:
        name: Its name in ``PATCH …/settings``.
        value: Its value in this session; null if its plugin is not installed.
        key: Its key in the user's settings file; empty for a value of the session alone.
        help: What it means.
        rights: The right that changing it needs.
        at_once: Whether a change has an effect at once, and not when a session is opened next.
    """

    name: Literal["approve", "web_search", "images", "tool_protocol"]
    value: bool | str | None
    key: str
    help: str
    rights: Rights
    at_once: bool


class SettingList(msgspec.Struct, frozen=True):
    """The settings that a face may change."""

    settings: list[SettingFacts]


class SettingsChange(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """New values of settings; null leaves a value as it is.

    Attributes:
        approve: The approval policy of this session.
        web_search: Whether agents have the tools for the web.
        images: Whether images may be generated.
        tool_protocol: How the session's model calls tools.
    """

    approve: Annotated[str, msgspec.Meta(pattern="^(ask_first|auto|readonly)$")] | None = None
    web_search: bool | None = None
    images: bool | None = None
    tool_protocol: Literal["auto", "native", "text"] | None = None


@operation("GET", "/api/sessions/{session}/settings", rights="watch", returns=SettingList)
async def list_settings(call: Call[None, None]) -> SettingList:
    """List the settings that a face may change."""
    return await _list_settings(call.hosted)


async def _list_settings(hosted: HostedSession) -> SettingList:
    session = hosted.session
    explained = {row.key: row.value for row in session.kernel.explain()}
    model = await find_current_model(hosted)
    protocol = explained.get(f"models.models.{model}.tool_protocol", "auto")
    return SettingList(
        [
            SettingFacts(
                name="approve",
                value=session.approve,
                key="",
                help="Which calls need approval, in this session.",
                rights="approve",
                at_once=True,
            ),
            SettingFacts(
                name="web_search",
                value=_as_bool(explained.get("web.enabled")),
                key="web.enabled",
                help="Whether the agent has the tools for searching and reading the web.",
                rights="administer",
                at_once=False,
            ),
            SettingFacts(
                name="images",
                value=_as_bool(explained.get("image.enabled")),
                key="image.enabled",
                help="Whether images may be generated; they cost money or time.",
                rights="administer",
                at_once=False,
            ),
            SettingFacts(
                name="tool_protocol",
                value=str(protocol),
                key=f"models.models.{model}.tool_protocol" if model else "",
                help="How the model calls tools: with its vendor's protocol or as text.",
                rights="administer",
                at_once=False,
            ),
        ]
    )


def _as_bool(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


@operation(
    "PATCH",
    "/api/sessions/{session}/settings",
    rights="prompt",
    body=SettingsChange,
    returns=SettingList,
)
async def change_settings(call: Call[None, SettingsChange]) -> SettingList:
    """Change settings; except for the approval policy, they apply to sessions opened later."""
    hosted = call.hosted
    wanted = call.body
    stored: list[tuple[list[str], object]] = []
    if wanted.web_search is not None:
        stored.append((["web", "enabled"], wanted.web_search))
    if wanted.images is not None:
        stored.append((["image", "enabled"], wanted.images))
    if wanted.tool_protocol is not None:
        model = await find_current_model(hosted)
        if not model:
            raise Problem(400, E_BAD_ARGS, "The session has no model.", "Choose a model first.")
        stored.append((["models", "models", model, "tool_protocol"], wanted.tool_protocol))
    if stored:
        require_right(call, "administer", "Changing the user's settings")
    if wanted.approve is not None:
        require_right(call, "approve", "Changing the approval policy")
        await change_session_settings(hosted.session, approve=wanted.approve)
    path = config_folder(hosted.session.kernel.environ) / FILE
    for key, value in stored:
        await trio.to_thread.run_sync(change, path, key, value)
    return await _list_settings(hosted)
