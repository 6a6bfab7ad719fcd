"""The error tree, and the codes that users, models and programs see.

::

    HilumError(code, message, hint)     the problem, and the next step
    ├── UsageError                      the request is not possible
    │   └── SettingsError               settings are invalid; lists every mistake
    ├── StoreError                      the session store cannot carry out the request
    ├── PluginError                     a plugin broke its contract
    ├── ModelError                      a model call failed; its kind decides whether to retry
    └── ToolError                       a tool reports a problem to the model
        ├── ToolDenied                  the call was refused
        └── NeedsUser                   only the user can help; the model must explain and ask
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence

# All codes; docs/errors.md explains them. Each code is an attribute of this module:
# ``errors.E_TIMEOUT``.
CODES = frozenset(
    """
    E_ADDRESS
    E_APPROVAL_TIMEOUT
    E_BAD_ARGS
    E_BLOCKED
    E_BUDGET
    E_BUSY
    E_CMD_FAIL
    E_CONTENT
    E_COST_LIMIT
    E_DENIED
    E_FAILED
    E_FILE_NOT_FOUND
    E_HOST
    E_HTTP
    E_INTERNAL
    E_INTERRUPTED
    E_LLM_429
    E_LLM_AUTH
    E_LLM_FAIL
    E_LLM_TIMEOUT
    E_METHOD
    E_MULTIPLE_MATCHES
    E_NOT_CONFIGURED
    E_NOT_FOUND
    E_NOT_INSTALLED
    E_NO_MODEL
    E_ORIGIN
    E_OUTPUT_LIMIT
    E_PATH_TRAVERSAL
    E_PLUGIN
    E_PORT
    E_RATE
    E_READBACK_FAIL
    E_REJECTED
    E_REPEATED
    E_RIGHTS
    E_SEEN
    E_SERVER
    E_SETTINGS
    E_STALE
    E_STOPPED
    E_STORE
    E_TIMEOUT
    E_TOKEN
    E_TOKEN_LIMIT
    E_TOO_LARGE
    E_TURN_LIMIT
    E_UNKNOWN
    E_UNKNOWN_TOOL
    E_UNREACHABLE
    E_WINDOW
    """.split()
)


# Codes are attributes, so that a misspelled code raises an AttributeError.
def __getattr__(name: str) -> str:
    if name in CODES:
        return name
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# Maximum number of permission rules that a hint lists.
MAX_RULES = 3
# Maximum number of names that an error lists; the others are counted. The limit is above the number
# of tools in the standard set.
MAX_NAMES = 60
# Codes of failed runs that may succeed on another attempt, because the cause was the provider, the
# network or the key.
RETRYABLE = frozenset(("E_LLM_429", "E_LLM_AUTH", "E_LLM_FAIL", "E_LLM_TIMEOUT", "E_NO_MODEL"))
GATE_SHUT = "guards tool calls and is not working"
GATE_FAILED = "which guards this, failed"
RESULT_WITHHELD = "The result is withheld"
COMMAND_WITHHELD = "The command may not start because a gate failed"
GATE_TEXTS = (GATE_SHUT, GATE_FAILED, RESULT_WITHHELD, COMMAND_WITHHELD)
"""Phrases in the result of a call that was refused or whose result was withheld, because a plugin
is not working; faces search for them."""
UNAPPROVABLE = (
    "It cannot be approved. Continue without it, or tell the user what to run themselves."
)
"""The end of the reason for a call that no user can approve; it tells the model what to do."""
UNATTENDED = "It needs the user's approval, and no user is present to give it"
"""The beginning of the result text of a call that was denied because no user is present.

Faces search for this text.
"""

CALL_NOT_RUN = "was not run, because"
CALL_CUT_SHORT = "was stopped before it was complete, because"
CALL_UNCERTAIN = "was cut off when hilum ended and may or may not have had its effect."
CALL_LOST = (
    "was cut off. It cannot run again, because its arguments contained a secret, which is not"
    " stored."
)
CALL_ENDS = (CALL_NOT_RUN, CALL_CUT_SHORT, CALL_UNCERTAIN, CALL_LOST)
"""How the result of a call that was cut off continues after the call in backticks; faces search for
these texts."""

RULE = "rule"
"""The key, in the data of a denied call's result, for a rule that would allow the call."""

BY_POLICY = "by_policy"
"""The key, in the data of a denied call's result, that says that the policy ``auto`` would let the call
run."""

STOPPED_BY = "stopped_by"
"""The key, in the data of the result of a call that was stopped alone, for who stopped it."""


def describe_fault(plugin: str, hook: str, error: str) -> str:
    """Return a sentence for the user about a plugin that failed or was not loaded."""
    if hook == "load":
        return f"the plugin {plugin} is not loaded: {error}"
    return f"the plugin {plugin} failed in {hook}: {error}"


def unapproved(count: int) -> str:
    """Return a sentence about calls that were denied because no user could approve them."""
    calls = "the call" if count == 1 else f"all {count} calls"
    return (
        f"Nothing was changed: {calls} that needed approval had to be denied, because no user"
        " was present to give it."
    )


def approval_hint(approve: str, rules: Iterable[str] = (), *, by_policy: bool = True) -> str:
    """Return a hint about calls that were denied because no user could approve them.

    Args:
        approve: The approval policy of the session.
        rules: The rules that allow these calls, as ``hilum permissions allow`` takes them.
        by_policy: Whether the policy ``auto`` would let some of these calls run.
    """
    ways = _list_ways(approve, rules, by_policy)
    if not ways:
        return "Run it at a terminal, where you can approve these calls: hilum"
    return f"Run it at a terminal, or {', or '.join(ways)}"


def letting_run(approve: str, rules: Iterable[str] = (), *, by_policy: bool = True) -> str:
    """Return advice on how to let calls run that were denied.

    The text ends with a command or an option and has no full stop, so that this part can be copied.

    Args:
        approve: The approval policy of the session.
        rules: The rules that allow these calls, as ``hilum permissions allow`` takes them.
        by_policy: Whether the policy ``auto`` would let some of these calls run.
    """
    ways = _list_ways(approve, rules, by_policy)
    return ", or ".join(ways) or "approve these calls at a terminal: hilum"


def _list_ways(approve: str, rules: Iterable[str], by_policy: bool) -> list[str]:
    """Return the ways to let calls run without approval; a way that does not help is no way."""
    ways = []
    if by_policy and approve != "auto":
        ways.append("let calls run without approval: --approve auto")
    commands = [f"hilum permissions allow {shlex.quote(rule)}" for rule in rules]
    if commands:
        ways.append(f"allow them by a rule: {' && '.join(commands[:MAX_RULES])}")
    return ways


# Exit codes of the command line, by error code; every other error has exit code 1. ``hilum run
# --help`` explains the exit codes.
EXITS = dict.fromkeys(
    "E_UNKNOWN E_SETTINGS E_NO_MODEL E_BAD_ARGS E_FILE_NOT_FOUND E_WINDOW".split(), 2
)
EXITS |= dict.fromkeys("E_LLM_AUTH E_LLM_FAIL E_LLM_429 E_LLM_TIMEOUT".split(), 4)
# 124 is the code of GNU timeout, and 130 that of a shell for Ctrl-C (128 + SIGINT).
EXITS |= {"E_STORE": 5, "E_BUSY": 5, "E_TIMEOUT": 124, "E_STOPPED": 130}


def end_once(sentence: str) -> str:
    """Return a sentence without a second full stop at its end.

    A message often ends with a reason from another program or library, which may already end with a
    full stop. Three dots are kept, because they are an ellipsis.
    """
    if sentence.endswith("..") and not sentence.endswith("..."):
        return sentence[:-1]
    return sentence


class HilumError(Exception):
    """An error with a code, a sentence about the problem, and a sentence about the next step.

    Args:
        message: A sentence about the problem.
        code: A stable code, ``E_…``.
        hint: A sentence about the next step; may be empty.
    """

    code: str = "E_INTERNAL"

    def __init__(self, message: str, *, code: str = "", hint: str = "") -> None:
        message = end_once(message)
        super().__init__(message)
        self.message = message
        self.hint = hint
        self.code = code or self.code

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()

    @property
    def exit_code(self) -> int:
        """The exit code of a command that ends with this error."""
        return EXITS.get(self.code, 1)


class UsageError(HilumError):
    """The request refers to something unknown or missing, or combines incompatible options."""

    code = "E_UNKNOWN"
    # The exit code that argparse uses for wrong usage.
    exit_code: int = 2


class PromptDenied(UsageError):
    """A plugin refuses a prompt, which is neither logged nor sent."""

    code = "E_DENIED"
    # The command line was correct.
    exit_code: int = 1


class SettingsError(UsageError):
    """Settings are invalid. ``problems`` lists all mistakes, each with its file and key."""

    code = "E_SETTINGS"

    def __init__(self, problems: Sequence[str], *, hint: str = "") -> None:
        self.problems: list[str] = list(problems)
        count = "a mistake" if len(self.problems) == 1 else f"{len(self.problems)} mistakes"
        super().__init__(
            f"The settings have {count}:\n" + "\n".join(f"  {p}" for p in self.problems), hint=hint
        )

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}".strip()


class StoreError(HilumError):
    """The session store cannot carry out a request.

    The session may be unknown or in use, the file damaged, or the disk full.
    """

    code = "E_STORE"


class PluginError(HilumError):
    """A plugin broke its contract."""

    code = "E_PLUGIN"


class ModelError(HilumError):
    """A model call failed.

    Gateways raise this error and never retry; only the kernel does, so that retries are never
    nested.

    Args:
        message: A sentence about the problem.
        kind: ``timeout`` (no byte in time), ``rate_limit``, ``auth``, ``server`` (5xx, or an error
            event in the stream), ``broken`` (the stream broke off or could not be read),
            ``connect``, ``too_long`` (the prompt exceeds the window), ``quota`` (no credit left),
            ``runaway`` (the response never ended), ``too_slow``, ``protocol`` (the provider
            requires another kind of request, which the gateway will use from now on) or ``request``
            (refused for another reason).
        status: HTTP status; 0 if there was no HTTP response.
        retry_after: Seconds to wait before the next attempt, if the provider specifies them.
        hint: A sentence about the next step.
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
    """A tool reports a problem to the model, which reads the message and the hint unchanged."""

    code = "E_FAILED"


class ToolDenied(ToolError):
    """The call was refused; the model should change its plan.

    Attributes:
        rule: A rule that allows such a call, in the notation of ``hilum permissions allow``; empty
            if no rule does. Only the user sees the rule, not the model.
        by_policy: Whether the approval policy ``auto`` would let the call run.
    """

    code = "E_DENIED"
    rule = ""
    by_policy = False


class NeedsUser(ToolError):
    """A problem that only the user can solve.

    Faces show the problem, and the model must explain it and ask the user.
    """


class AddressRefused(HilumError):
    """A network address must not be contacted, or a host has no address (``E_UNREACHABLE``).

    Args:
        message: A sentence about the reason.
        code: A stable code, ``E_…``.
        listable: Whether the user could allow the host in the settings.
    """

    code = "E_ADDRESS"

    def __init__(self, message: str, *, code: str = "", listable: bool = False) -> None:
        super().__init__(message, code=code)
        self.listable = listable


def similar_names(
    name: str, known: Iterable[str], limit: int = 2, *, cutoff: float = 0.6
) -> list[str]:
    """Return the known names that are similar to a mistyped name, most similar first.

    The comparison ignores case and the separators ``-``, ``_``, ``.`` and space.

    Args:
        name: The mistyped name.
        known: All valid names.
        limit: The maximum number of names.
        cutoff: The minimum similarity of a name, from 0 to 1.
    """
    # Takes 2 ms, and is needed only for an error.
    from difflib import SequenceMatcher, get_close_matches

    # Of several names that differ only in case and separators, only the first one is suggested.
    originals: dict[str, str] = {}
    for each in known:
        originals.setdefault(_without_separators(each), each)
    wanted = _without_separators(name)
    found = get_close_matches(wanted, originals, n=limit, cutoff=cutoff)
    if not found:
        return []
    # A name that is far less similar than the first one only distracts from it.
    ratios = [SequenceMatcher(None, each, wanted).ratio() for each in found]
    near = [each for each, ratio in zip(found, ratios, strict=True) if ratio > ratios[0] - 0.25]
    return [originals[each] for each in near]


def _without_separators(name: str) -> str:
    return re.sub(r"[-_. ]", "", name.casefold())


def unknown_name_error(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> UsageError:
    """Create the error for an unknown name, with similar names as the hint.

    Args:
        kind: The kind of thing, for example ``model``.
        name: The unknown name.
        known: All valid names.
        hint: The hint if there is no similar name.
    """
    names = sorted(known)
    near = similar_names(name, names)
    if near:
        hint = f"Did you mean {' or '.join(near)}?"
    elif not hint and names:
        more = f" and {len(names) - MAX_NAMES} more" if len(names) > MAX_NAMES else ""
        hint = f"Known: {', '.join(names[:MAX_NAMES])}{more}."
    return UsageError(f"There is no {kind} {name!r}.", hint=hint)
