"""The kernel's own settings."""

from __future__ import annotations

from typing import Literal, get_args

from hilum.settings.declare import section, setting


@section()
class PluginSettings:
    """The plugins to load, by name."""

    allow: list[str] | None = setting(
        default=None, help="Only these plugins are loaded; all when not set."
    )
    block: list[str] = setting(factory=list, help="Plugins that are never loaded.")
    order: list[str] = setting(factory=list, help="Plugins that come first, in this order.")


Approve = Literal["ask_first", "auto", "readonly"]
SessionKind = Literal["main", "shared", "headless"]
KINDS: tuple[str, ...] = get_args(SessionKind)


@section("")
class KernelSettings:
    """The kernel's settings, which are at the top of the file, outside any table."""

    # A project must not choose the model: it could be expensive, or send the user's code to another
    # provider.
    model: str = setting(
        default="",
        project="user",
        help="Model to use, provider/name; empty lets the providers suggest one.",
    )
    roles: dict[str, str] = setting(
        factory=dict, project="user", help="Models by role: default, fast, summarize."
    )
    fallback: list[str] = setting(
        factory=list, project="user", help="Models to try, in order, when the chosen one fails."
    )
    mode: str = setting(default="agent", project="user", help="Initial mode of a session.")
    # A cloned repository must not be able to switch approvals off.
    approve: Approve = setting(
        default="ask_first", project=False, help="What happens to calls that change something."
    )
    approval_timeout: float = setting(
        default=300.0,
        minimum=0,
        project="lower",
        help="Seconds until an unanswered request for approval is denied.",
    )
    turns: int = setting(
        default=25, minimum=1, project="lower", help="Maximum number of model calls in a run."
    )
    timeout: float | None = setting(
        default=None,
        minimum=0,
        project="lower",
        help="Maximum duration of a run in seconds; no limit when not set.",
    )
    token_limit: int | None = setting(
        default=None,
        minimum=1,
        project="lower",
        help="Maximum number of tokens in a run; no limit when not set.",
    )
    silence: float = setting(
        default=30.0,
        minimum=0,
        project="user",
        help=(
            "Seconds without content after which a model counts as silent; keep-alive messages"
            " extend this time up to fourfold."
        ),
    )
    answer_timeout: float = setting(
        default=3_600.0,
        minimum=1,
        project="lower",
        help="Maximum duration of one model answer in seconds.",
    )
    slow_hook: float = setting(
        default=0.05,
        minimum=0,
        project="user",
        help="Seconds after which a plugin's hook is recorded for hilum trace; 0 records none.",
    )
    required: list[str] = setting(
        factory=list,
        project=False,
        help="Distributions that must be installed for tool calls to run.",
    )
    extra_roots: list[str] = setting(
        factory=list,
        project=False,
        help="Additional folders that tools and commands may use and change as the workspace.",
    )
    plugins: PluginSettings = setting(
        factory=PluginSettings, project=False, help="Which plugins are loaded."
    )
    session_kind: SessionKind = setting(
        default="main", project=False, help="Kind of a new session: main, shared or headless."
    )
