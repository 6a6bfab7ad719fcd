"""The error tree, and the codes that users, models and programs see.

::

    HilumError(code, message, hint)     what happened, and what to do next
    ├── UsageError                      the request cannot be met as it stands
    │   └── SettingsError               settings that do not parse; names every mistake at once
    ├── StoreError                      the session store cannot do what was asked
    ├── PluginError                     a plugin broke its contract
    ├── ModelError                      a model call failed; says how, so that the kernel can decide about a retry
    └── ToolError                       a tool tells the model what went wrong
        ├── ToolDenied                  the call was refused
        └── NeedsUser                   only the user can help; the model must explain and ask
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

# Every code there is, with its meaning in docs/errors.md; each is a name of this module:
# ``errors.E_TIMEOUT``.
CODES = frozenset(
    """
    E_ADDRESS E_APPROVAL_TIMEOUT E_BAD_ARGS E_BLOCKED E_BUSY E_CMD_FAIL E_CONTENT E_DENIED E_FAILED E_FILE_NOT_FOUND E_HTTP
    E_INTERNAL E_INTERRUPTED E_LLM_429 E_LLM_AUTH E_LLM_FAIL E_LLM_TIMEOUT E_MULTIPLE_MATCHES E_NOT_CONFIGURED E_NOT_FOUND
    E_NOT_INSTALLED E_NO_MODEL E_OUTPUT_LIMIT E_PATH_TRAVERSAL E_PLUGIN E_READBACK_FAIL E_REJECTED E_REPEATED E_SERVER
    E_SETTINGS E_STALE E_STOPPED E_STORE E_TIMEOUT E_TOKEN_LIMIT E_TOO_LARGE E_TURN_LIMIT E_UNKNOWN E_UNKNOWN_TOOL
    E_UNREACHABLE E_WINDOW
    """.split()
)


def __getattr__(name: str) -> str:
    if name in CODES:
        return name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Names that an error lists; more are counted. All tools of the standard set are shown.
MAX_NAMES = 60
# Codes of failed runs that may succeed when they are tried again: the provider, the network or the
# key was the reason.
RETRYABLE = frozenset(("E_LLM_429", "E_LLM_AUTH", "E_LLM_FAIL", "E_LLM_TIMEOUT", "E_NO_MODEL"))
GATE_SHUT = "guards tool calls and is not working"
GATE_FAILED = "which guards this, failed"
RESULT_WITHHELD = "The result is withheld"
COMMAND_WITHHELD = "The command may not start because a gate failed"
GATE_TEXTS = (GATE_SHUT, GATE_FAILED, RESULT_WITHHELD, COMMAND_WITHHELD)
"""What texts of calls contain that were refused, or whose result was, by a plugin that is not in
working order; faces look for it."""
UNATTENDED = "It needs the user's approval and nobody is there to give it"
"""How the text of a call begins that was denied because nobody can be asked; faces look for it."""


def unapproved(count: int) -> str:
    """Return the sentence about calls that nobody could approve."""
    calls = "the call" if count == 1 else f"all {count} calls"
    return (
        f"Nothing was changed: {calls} that needed approval had to be denied, because nobody was"
        " there to give it."
    )


def approval_hint(approve: str, rule: str = "") -> str:
    """Return what to do about calls that nobody could approve.

    Args:
        approve: The approval policy of the session.
        rule: A rule that allows such a call, as ``hilum permissions allow`` takes it; empty where
            none is known.
    """
    return f"Run it at a terminal, or {letting_run(approve, rule)}. See hilum permissions --help."


def letting_run(approve: str, rule: str = "") -> str:
    """Return how the user lets calls run without approving them, under an approval policy."""
    if approve != "auto":
        return "let calls run without being asked: --approve auto"
    # What needs approval even then is let run by a rule.
    return f"allow such calls by a rule: hilum permissions allow {rule}".rstrip()


# Exit codes of the command line, by error code; every other error is 1. The meanings are in
# ``hilum run --help``.
EXITS = dict.fromkeys(
    "E_UNKNOWN E_SETTINGS E_NO_MODEL E_BAD_ARGS E_FILE_NOT_FOUND E_WINDOW".split(), 2
)
EXITS |= dict.fromkeys("E_LLM_AUTH E_LLM_FAIL E_LLM_429 E_LLM_TIMEOUT".split(), 4)
EXITS |= {"E_STORE": 5, "E_BUSY": 5, "E_TIMEOUT": 124, "E_STOPPED": 130}


class HilumError(Exception):
    """An error with a code, one sentence of what happened, and one of what to do.

    Args:
        message: What happened, one sentence.
        code: A stable code, ``E_…``.
        hint: What to do next, one sentence; may be empty.
    """

    code = "E_INTERNAL"

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    @property
    def exit_code(self) -> int:
        """What a command that ends with this error exits with."""
        return EXITS.get(self.code, 1)


class UsageError(HilumError):
    """The request cannot be met as it stands: an unknown name, a missing folder, an impossible
    combination.
    """

    code = "E_UNKNOWN"
    exit_code = 2


class SettingsError(UsageError):
    """Settings that do not parse. ``problems`` holds every mistake, each with file and key."""

    code = "E_SETTINGS"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.problems = list(problems)
        count = "a mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(
            f"The settings have {count}:\n" + "\n".join(f"  {p}" for p in self.problems), hint=hint
        )

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}".strip()


class StoreError(HilumError):
    """The session store cannot do what was asked: not found, in use, damaged, disk full."""

    code = "E_STORE"


class PluginError(HilumError):
    """A plugin broke its contract."""

    code = "E_PLUGIN"


class ModelError(HilumError):
    """A model call failed.

    Gateways raise it and never retry; the kernel decides, so that no two layers retry each other.

    Args:
        message: What happened, one sentence.
        kind: ``timeout`` (no byte in time), ``rate_limit``, ``auth``, ``server`` (5xx, or an error
            event in the stream), ``broken`` (the stream broke off, or could not be read),
            ``connect``, ``too_long`` (the prompt exceeds the window), ``quota`` (no credit left),
            ``runaway`` (the answer never ended), ``too_slow``, ``protocol`` (the provider must be
            asked another way, and the gateway now does) or ``request`` (refused for another
            reason).
        status: HTTP status, 0 where there was none.
        retry_after: Seconds the provider asks to wait, if it says.
        hint: What to do next.
    """

    KINDS = {
        "timeout": "E_LLM_TIMEOUT",
        "too_slow": "E_LLM_TIMEOUT",
        "rate_limit": "E_LLM_429",
        "quota": "E_LLM_429",
        "auth": "E_LLM_AUTH",
    }

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int = 0,
        retry_after: float | None = None,
        hint: str = "",
    ) -> None:
        super().__init__(message, code=self.KINDS.get(kind, "E_LLM_FAIL"), hint=hint)
        self.kind = kind
        self.status = status
        self.retry_after = retry_after


class ToolError(HilumError):
    """A tool tells the model what went wrong.

    The message and the hint go to the model as they are.
    """

    code = "E_FAILED"


class ToolDenied(ToolError):
    """The call was refused; the model should change its plan."""

    code = "E_DENIED"


class NeedsUser(ToolError):
    """Only the user can help. The user is told, and the model is made to explain and ask."""


def unknown(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> UsageError:
    """Build the error for a name that is not known, with near names as the hint.

    Args:
        kind: What was named, for example ``model``.
        name: The name as given.
        known: All names that would have been right.
        hint: Used where no near name exists.
    """
    names = sorted(known)
    from difflib import get_close_matches  # 2 ms, only where something went wrong

    near = get_close_matches(name, names, n=2)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif not hint and names:
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        hint = f"Known: {', '.join(names[:MAX_NAMES])}{more}."
    return UsageError(f"There is no {kind} {name!r}.", hint=hint)
