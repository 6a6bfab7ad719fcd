"""The settings of hilum in an editor."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hilum import PluginError, section, setting

if TYPE_CHECKING:
    from hilum import Session


@section("acp")
class AcpSettings:
    """How an editor shows what hilum does."""

    terminals: bool = setting(
        default=True,
        project="user",
        help=(
            "Whether commands are shown in terminals of the editor, if it offers them; otherwise,"
            " the end of their output is shown as text."
        ),
    )


def read_settings(session: Session) -> AcpSettings:
    """Return the settings of a session; the defaults if the plugin ``acp`` is left out."""
    try:
        return session.settings(AcpSettings)
    except PluginError:
        return AcpSettings()
