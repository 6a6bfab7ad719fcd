"""The options of one run.

The options come from the command line, from ``hilum demo``, or from a program that uses
``headless.Headless``.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

if TYPE_CHECKING:
    from hilum import Image


@attrs.define
class RunOptions:
    """The options of one run.

    Attributes:
        workspace: The folder to work in.
        prompt: The task; empty to only resume.
        attached: Data that accompanies the prompt, such as piped input.
        images: Images that accompany the prompt.
        piped: Whether another program wrote the prompt.
        accept: Whether to carry out the plan that is awaiting a decision.
        resume: Id of the session to resume; empty for a new one.
        kind: Kind of the session; empty for the configured one.
        mode: Mode of the session; None for the configured one.
        model: Model as ``provider/name``; empty for the configured one.
        approve: Approval policy; None for the configured one.
        state: The state of the user's editor, such as open files.
        record: File of the cassette to write; empty for none.
        settings: Settings, by dotted key.
        environ: Environment to read settings from.
        plugins: Names of the plugins to load; None for all installed plugins.
        plugin: Files and folders of additional plugins to load.
        no_plugin: Names of plugins not to load.
    """

    workspace: str
    prompt: str = ""
    attached: str = ""
    images: Sequence[Image] = ()
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
