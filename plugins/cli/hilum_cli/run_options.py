"""What one run is told: by the command line, by ``hilum demo``, or by a program that runs
``headless.Headless``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import attrs


@attrs.define
class RunOptions:
    """The options of one run.

    Attributes:
        workspace: The folder to work in.
        prompt: What to do; empty resumes only.
        piped: Whether another program wrote the prompt.
        accept: Whether the plan that waits is carried out.
        resume: Id of the session that is resumed; empty for a new one.
        kind: Kind of the session; empty for that of the settings.
        mode: Mode to be in; None for that of the settings.
        model: ``provider/name``; empty for that of the settings.
        approve: Approval policy; None for that of the settings.
        state: What is known of the user's workspace, such as open files.
        record: File of the cassette to write; empty for none.
        settings: Settings by dotted key.
        environ: Environment to read settings from.
        plugins: The only plugins; None for all that are installed.
        plugin: Files and folders of more plugins.
        no_plugin: Names of plugins that are left out.
    """

    workspace: str
    prompt: str = ""
    piped: bool = False
    accept: bool = False
    resume: str = ""
    kind: str = ""
    mode: str | None = None
    model: str = ""
    approve: str | None = None
    state: Mapping[str, object] | None = None
    record: str = ""
    settings: dict[str, Any] = attrs.field(factory=dict)
    environ: Mapping[str, str] = attrs.field(factory=lambda: os.environ)
    plugins: Sequence[object] | None = None
    plugin: Sequence[str] = ()
    no_plugin: Sequence[str] = ()
