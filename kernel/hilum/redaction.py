"""Removal of secrets from every event before it is written.

The conversation contains the same texts as the log.

Plugins find and replace the secrets (see the hook ``redact_texts``). The kernel decides which
fields of an event are texts, and which are identifiers that must stay unchanged. Data that a vendor
has signed is either kept unchanged or left out completely.

If a plugin fails, texts are withheld: a prompt is refused, a run ends, and events that must be
written contain a placeholder.
"""

from __future__ import annotations

import functools
import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from hilum.arguments import encode_arguments, safe_answer
from hilum.errors import PluginError
from hilum.events import (
    Event,
    HookCalled,
    ModelAnswered,
    PluginFault,
    PromptQueued,
    RunStarted,
    SessionOpened,
    SessionReopened,
    SteeringQueued,
)
from hilum.hooks import Table
from hilum.messages import AssistantMessage, Image, Text, Thinking, ToolCall, ToolResult

HOOK = "redact_texts"
PLACEHOLDER = re.compile(r"\[REDACTED:([^\]\s]{1,200})\]")
WITHHELD = "[WITHHELD: it could not be searched for secrets]"
# Texts with fewer characters than this are not searched, because a secret in them would look like
# an ordinary word.
MIN_LENGTH = 8
# If the new texts in an event have more characters than this, they are searched in a thread. The
# guard's redactor takes 0.1 to 0.7 ms for 1,000 characters.
IN_THREAD = 20_000
# Maximum number of characters in the texts whose results are cached. One response may have 128
# calls, each with 4,000,000 characters of arguments.
MAX_KEPT = 8_000_000
# Up to this length, a vendor's field is a plain value; a longer field may be a signature of the
# text.
MAX_PLAIN_FIELD = 64
# The walk through an event is repeated while new texts appear: first those inside arguments, then
# the arguments as a whole.
MAX_PASSES = 5
# Fields with identifiers to which other events refer. The vendors' fields are handled separately.
_LEFT_ALONE = frozenset(
    {
        "id",
        "call_id",
        "agent",
        "run",
        "session",
        "parent",
        "forked",
        "previous",
        "plugin",
        "hook",
        "code",
        "name",
        "media_type",
        "source",
        "withheld",
        "redacted",
        "model",
        "mode",
        "state",
        "risk",
        "effect",
        "kind",
        "stop",
        "by",
        "steering",
    }
)
_NO_TEXTS = (SessionOpened, SessionReopened, Image)
# Fields that contain the arguments of a call as JSON.
_ARGUMENTS = ("original", "arguments")
# Fields of these events that are the user's words.
_PROMPT_FIELDS = ("text", "attached", "typed")
_PROMPTS = (PromptQueued, SteeringQueued, RunStarted)
Origin = Literal["prompt", "model", "arguments", "result", "other"]
Lookup = Callable[[str, Origin], str]
Found = dict[tuple[Origin, str], str]
"""The text without secrets, by origin and original text."""
E = TypeVar("E", bound=Event)


class Redaction:
    """The remover of secrets from one session's events.

    Args:
        hooks: The hooks of the session.

    Attributes:
        names: Names of the secrets that were replaced so far, in prompts and in responses.
        opened: Whether the session's plugins have opened. Before they open, events contain no
            texts.
    """

    def __init__(self, hooks: Table) -> None:
        self.names: set[str] = set()
        self.opened = False
        self._hooks = hooks
        self._kept: OrderedDict[tuple[Origin, str], str] = OrderedDict()
        self._size = 0
        # The kernel's own messages, which are shown even if no text can be searched.
        self._own: set[str] = {WITHHELD}

    def problem(self) -> str:
        """Return why texts cannot be searched for secrets; empty if they can be searched."""
        if not self.opened:
            return ""
        for plugin, reason in self._hooks.closed.get(HOOK, {}).items():
            return (
                f"The plugin {plugin!r}, which removes secrets from texts, is not in working order"
                f" ({reason})."
            )
        return ""

    def check(self) -> None:
        """Check that texts can be searched for secrets.

        Raises:
            PluginError: A plugin that removes secrets from texts does not work.
        """
        problem = self.problem()
        if problem:
            raise self._error(problem)

    def _error(self, problem: str) -> PluginError:
        hint = (
            "`hilum plugins` shows what is wrong. If you can do without the plugin's protection,"
            " block it by name: plugins.block in settings.toml, --no-plugin, or without=[…] in a"
            " program."
        )
        self._own |= {problem, hint}
        return PluginError(problem, hint=hint)

    # --- texts and events -------------------------------------------------------------------------

    def event(self, event: E, *, by_model: bool = False) -> E:
        """Return an event in the form in which the log may contain it.

        Texts that cannot be searched are withheld.

        Args:
            event: The event.
            by_model: Whether a model wrote the prompts of the event's agent.
        """
        if isinstance(event, PluginFault) and event.hook == HOOK:
            return event  # the event quotes no text, and a search would fail again
        if isinstance(event, HookCalled):
            # The event contains only names. If the search itself is slow, a search of this event
            # would write another one.
            return event
        if self.problem():
            # The user must see how a plugin failed. No other text is written while texts cannot be
            # searched.
            if isinstance(event, PluginFault):
                return event
            return self._marked(event, self._withheld)
        if not self._hooks.implemented(HOOK):
            return event
        found: Found = {}
        for _ in range(MAX_PASSES):
            walk = _Walk(self, found, by_model=by_model)
            changed = self._marked(event, walk.lookup)
            if not walk.missing:
                return changed
            try:
                for origin, texts in walk.missing.items():
                    self._search(found, origin, tuple(texts))
            except PluginError:
                return self._marked(event, self._withheld)
        # If new texts still appear, all texts are withheld, which is safer than writing one that
        # was not searched.
        return self._marked(event, self._withheld)

    async def prepare(self, event: Event, *, by_model: bool = False) -> None:
        """Search an event that is about to be written for secrets, in a thread if it is large.

        Args:
            event: The event.
            by_model: Whether a model wrote the prompts of the event's agent.

        Raises:
            PluginError: The event cannot be searched.
        """
        self.check()
        if not self._hooks.implemented(HOOK):
            return
        found: Found = {}
        for _ in range(MAX_PASSES):
            walk = _Walk(self, found, by_model=by_model)
            self._marked(event, walk.lookup)
            if not walk.missing:
                return
            for origin, texts in walk.missing.items():
                await self._ask(found, origin, texts)

    async def texts(self, texts: Sequence[str], origin: Origin = "other") -> list[str]:
        """Return texts without secrets; withhold all of them if they cannot be searched."""
        found: Found = {}
        walk = _Walk(self, found)
        if self.problem():
            return [self._withheld(text, origin) for text in texts]
        if not self._hooks.implemented(HOOK):
            return [*texts]
        for text in texts:
            walk.lookup(text, origin)
        try:
            for missing in walk.missing.values():
                await self._ask(found, origin, missing)
        except PluginError:
            return [self._withheld(text, origin) for text in texts]
        return [walk.lookup(text, origin) for text in texts]

    async def prompt(
        self, text: str, attached: str = "", typed: str = "", *, by_model: bool
    ) -> PromptQueued:
        """Return the event for a prompt and its attached data, without secrets.

        ``typed`` is what the user typed if a plugin replaced the text.

        Raises:
            PluginError: The texts cannot be searched.
        """
        event = PromptQueued(text=text, attached=attached, typed=typed)
        await self.prepare(event, by_model=by_model)
        return self.event(event, by_model=by_model)

    async def steering(self, identity: str, text: str) -> SteeringQueued:
        """Return the event for a steering message, without secrets.

        Raises:
            PluginError: The text cannot be searched.
        """
        event = SteeringQueued(id=identity, text=text)
        await self.prepare(event)
        return self.event(event)

    def call_id(self, identity: str) -> str:
        """Return the id of a call that a model is writing; empty if the id contains a secret."""
        if len(identity) < MIN_LENGTH or not self._hooks.implemented(HOOK):
            return identity
        known = self.known(("model", identity))
        if known is None:
            try:
                self._search({}, "model", (identity,))
            except PluginError:
                return ""
            known = self.known(("model", identity))
        return identity if known == identity else ""

    async def loggable(self, answer: AssistantMessage) -> AssistantMessage:
        """Return the response to a request without tools in the form for the log."""
        return safe_answer(await self.call_names(answer, ()))

    async def call_names(
        self, message: AssistantMessage, tools: Container[str]
    ) -> AssistantMessage:
        """Return a model's response with secrets removed from the names and ids of its calls.

        Names and ids are identifiers, which the log keeps unchanged. However, an id, or a name that
        is not a tool's, is free text written by the model.

        Args:
            message: The response as it arrived.
            tools: Names of the existing tools.
        """
        unknown = [call.name for call in message.calls if call.name not in tools]
        identities = [call.id for call in message.calls if call.id]
        if not unknown and not identities:
            return message
        asked = [*dict.fromkeys([*unknown, *identities])]
        cleaned = dict(zip(asked, await self.texts(asked, "model"), strict=True))
        parts: list[Text | Thinking | ToolCall] = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                name = part.name if part.name in tools else cleaned[part.name]
                # The kernel will replace an empty id with a new one.
                identity = part.id if cleaned.get(part.id) == part.id else ""
                part = replace(part, name=name, id=identity)
            parts.append(part)
        return replace(message, parts=tuple(parts))

    async def _ask(self, found: Found, origin: Origin, texts: Iterable[str]) -> None:
        """Search texts for secrets, in a thread if they are large.

        Raises:
            PluginError: The texts cannot be searched.
        """
        asked = tuple(texts)
        try:
            if sum(map(len, asked)) > IN_THREAD:
                answers = await self._hooks.filter_in_thread(
                    HOOK, "texts", texts=asked, origin=origin
                )
                self._keep(found, origin, asked, answers)
            else:
                self._search(found, origin, asked)
        except PluginError as error:
            problem = f"A text could not be searched for secrets. {error.message}"
            raise self._error(problem) from None

    def _search(self, found: Found, origin: Origin, texts: tuple[str, ...]) -> None:
        """Search texts for secrets immediately, and keep the results.

        Raises:
            PluginError: A plugin failed.
        """
        answers = self._hooks.filter(HOOK, "texts", texts=texts, origin=origin)
        self._keep(found, origin, texts, answers)

    def _keep(
        self, found: Found, origin: Origin, texts: tuple[str, ...], answers: Sequence[str]
    ) -> None:
        """Keep the results of texts that were searched.

        Raises:
            PluginError: The number of results differs from the number of texts.
        """
        # A string must not pass as a list of texts, one for each of its characters.
        if isinstance(answers, str) or len(answers) != len(texts):
            raise PluginError(f"A plugin returned {len(answers)} texts for {len(texts)}.")
        for text, answer in zip(texts, answers, strict=True):
            # The text without secrets is also cached, because it recurs in later events.
            for key in ((origin, text), (origin, answer)):
                found[key] = answer
                if key not in self._kept:
                    self._size += len(key[1])
                self._kept[key] = answer
        # The least recently used texts are dropped first, because the texts of a conversation
        # recur.
        while self._size > MAX_KEPT:
            (_, text), _ = self._kept.popitem(last=False)
            self._size -= len(text)

    def known(self, key: tuple[Origin, str]) -> str | None:
        """Return the result for a text that was searched recently."""
        if key not in self._kept:
            return None
        self._kept.move_to_end(key)
        return self._kept[key]

    def _withheld(self, text: str, origin: Origin) -> str:
        if text in self._own or len(text) < MIN_LENGTH:
            return text
        return WITHHELD

    # --- one event --------------------------------------------------------------------------------

    def _marked(self, event: E, lookup: Lookup) -> E:
        """Return an event with its texts replaced and with the names of the replaced secrets."""
        changed = _walk(event, lookup, "other")
        if isinstance(event, PromptQueued | SteeringQueued):
            names = _names(_user_texts(changed), _user_texts(event))
            self.names.update(names)
            if names:
                changed = replace(changed, redacted=names)
            return changed  # type: ignore[no-any-return]
        if isinstance(event, ModelAnswered):
            pairs = zip(changed.message.calls, event.message.calls, strict=True)
            withheld = [new.id for new, old in pairs if new.arguments != old.arguments]
            names = _names(_texts(changed), _texts(event))
            self.names.update(names)
            if names or withheld:
                changed = replace(changed, redacted=names, withheld=tuple(withheld))
        return changed  # type: ignore[no-any-return]


class _Walk:
    """One walk through an event, which looks up each text.

    The walk collects the texts that have not been searched yet.
    """

    def __init__(self, redaction: Redaction, found: Found, *, by_model: bool = False) -> None:
        self._redaction = redaction
        self._found = found
        self._by_model = by_model
        self.missing: dict[Origin, dict[str, None]] = {}

    def lookup(self, text: str, origin: Origin) -> str:
        """Return a text without secrets; unchanged if it has not been searched yet."""
        if len(text) < MIN_LENGTH:
            return text
        if origin == "prompt" and self._by_model:
            origin = "model"
        key = (origin, text)
        known = self._found.get(key)
        if known is None:
            known = self._redaction.known(key)
            if known is not None:
                self._found[key] = known
        if known is None:
            self.missing.setdefault(origin, {})[text] = None
            return text
        return known


# The origin of a text, by the source of its message part.
_TEXT_ORIGINS: dict[str, Origin] = {"user": "prompt", "piped": "prompt", "model": "model"}


def _walk(value: Any, lookup: Lookup, origin: Origin) -> Any:
    """Return plain data or a struct with its texts looked up (the same object if unchanged)."""
    if isinstance(value, str):
        return lookup(value, origin)
    kind: Any = type(value)
    walk = _find_walk(kind)
    return value if walk is None else walk(value, lookup, origin)


@functools.lru_cache(1024)
def _find_walk(kind: type) -> Callable[[Any, Lookup, Origin], Any] | None:
    """Return the function that walks through values of a class; ``None`` if they have no texts.

    The result is cached, because a turn of an agent walks through 150 values.
    """
    if issubclass(kind, _NO_TEXTS):
        return None
    for classes, walk in _WALKS:
        if issubclass(kind, classes):
            return walk
    return None


def _walk_mapping(value: dict[Any, Any], lookup: Lookup, origin: Origin) -> dict[Any, Any]:
    walked = {key: _walk(inner, lookup, origin) for key, inner in value.items()}
    if any(walked[key] is not inner for key, inner in value.items()):
        return walked
    return value


def _walk_sequence(value: Any, lookup: Lookup, origin: Origin) -> Any:
    items = [_walk(inner, lookup, origin) for inner in value]
    if all(new is old for new, old in zip(items, value, strict=True)):
        return value
    return items if isinstance(value, list) else tuple(items)


def _walk_call(value: ToolCall, lookup: Lookup, origin: Origin) -> ToolCall:
    arguments = _walk_arguments(value.arguments, lookup)
    problem = lookup(value.problem, "model")
    vendor = _walk_vendor(value.vendor, lookup)
    if (arguments, problem, vendor) == (value.arguments, value.problem, value.vendor):
        return value
    return replace(value, arguments=arguments, problem=problem, vendor=vendor)


def _walk_text(value: Text, lookup: Lookup, origin: Origin) -> Text:
    if origin != "result":
        origin = _TEXT_ORIGINS.get(value.source, "other")
    text = lookup(value.text, origin)
    if text is value.text:
        return value
    return replace(value, text=text)


def _user_texts(event: PromptQueued | SteeringQueued) -> list[str]:
    """Return the texts in an event that are the user's words."""
    if isinstance(event, PromptQueued):
        return [event.text, event.attached, event.typed]
    return [event.text]


def _walk_result(value: ToolResult, lookup: Lookup, origin: Origin) -> Any:
    return _walk_struct(value, lookup, "result")


def _walk_struct(value: Any, lookup: Lookup, origin: Origin) -> Any:
    changes: dict[str, Any] = {}
    kind: Any = type(value)
    for field in _list_fields(kind):
        inner = getattr(value, field)
        if field in _PROMPT_FIELDS and isinstance(value, _PROMPTS):
            new = lookup(inner, "prompt")
        elif field in _ARGUMENTS and isinstance(inner, str):
            new = _walk_arguments(inner, lookup)
        else:
            new = _walk(inner, lookup, origin)
        if new is not inner:
            changes[field] = new
    if changes:
        return replace(value, **changes)
    return value


@functools.lru_cache(1024)
def _list_fields(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """Return the fields of a class that are searched for secrets."""
    return tuple(field for field in kind.__struct_fields__ if field not in _LEFT_ALONE)


def _walk_thinking(part: Thinking, lookup: Lookup, origin: Origin) -> Thinking:
    """Return reasoning without secrets.

    A signed block must be sent back unchanged or not at all. If the block contains a secret, the
    vendor's fields are therefore left out, and the gateway then leaves out the block. A short
    text field, which only identifies the reasoning's position in the request, can be kept.
    """
    text = lookup(part.text, "model")
    vendor = _walk(part.vendor, lookup, "model")
    if text == part.text and vendor == part.vendor:
        return part
    fields = part.vendor.values()
    is_plain = all(isinstance(field, str) and len(field) <= MAX_PLAIN_FIELD for field in fields)
    if is_plain and vendor == part.vendor:
        return Thinking(text, vendor)
    return Thinking(text)


# The functions by class of the values. The more special classes come first.
_WALKS: tuple[tuple[Any, Callable[[Any, Lookup, Origin], Any]], ...] = (
    (dict, _walk_mapping),
    (list | tuple, _walk_sequence),
    (ToolCall, _walk_call),
    (Thinking, _walk_thinking),
    (Text, _walk_text),
    (ToolResult, _walk_result),
    (msgspec.Struct, _walk_struct),
)


def _walk_vendor(vendor: dict[str, Any], lookup: Lookup) -> dict[str, Any]:
    """Return the vendor's fields in a call, without those that contain a secret.

    A signature must be sent back unchanged or not at all, so a field is never changed. Gateways
    also work without these fields.
    """
    if not vendor:
        return vendor
    return {name: field for name, field in vendor.items() if _walk(field, lookup, "model") == field}


def _walk_arguments(text: str, lookup: Lookup) -> str:
    """Return the arguments of a call without secrets.

    A JSON object stays a JSON object; unchanged arguments keep their exact text.

    Each text is looked up without its JSON escapes, and then the arguments are looked up as a
    whole, because a key may show that its value is a secret.
    """
    try:
        decoded = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (ValueError, RecursionError):
        return lookup(text, "arguments")
    cleaned = _walk_json(decoded, lookup)
    spelled = text if cleaned == decoded else encode_arguments(cleaned)
    whole = lookup(spelled, "arguments")
    if whole == spelled:
        return spelled
    try:
        msgspec.json.decode(whole, type=dict[str, Any])
    except (ValueError, RecursionError):
        # If a placeholder replaces quotes or brackets, the JSON is damaged, but the arguments of a
        # call must stay an object.
        found = PLACEHOLDER.search(whole)
        withheld = found.group() if found else WITHHELD
        return encode_arguments({"withheld": withheld})
    return whole


def _walk_json(value: Any, lookup: Lookup) -> Any:
    """Return decoded JSON with all secrets replaced, including those in keys and numbers."""
    if isinstance(value, str):
        return lookup(value, "arguments")
    if isinstance(value, dict):
        walked: dict[str, Any] = {}
        # The last number that each name received, because counting from 1 for every key would take
        # quadratic time.
        numbers: dict[str, int] = {}
        for key, inner in value.items():
            cleaned = lookup(key, "arguments")
            name = cleaned
            while name in walked:  # two secrets have the same name
                numbers[cleaned] = numbers.get(cleaned, 1) + 1
                name = f"{cleaned}-{numbers[cleaned]}"
            walked[name] = _walk_json(inner, lookup)
        return walked
    if isinstance(value, list):
        return [_walk_json(inner, lookup) for inner in value]
    # A secret that consists only of digits may be a JSON number.
    if isinstance(value, int | float) and not isinstance(value, bool):
        spelled = repr(value)
        cleaned = lookup(spelled, "arguments")
        return value if cleaned == spelled else cleaned
    return value


def _texts(event: ModelAnswered) -> list[str]:
    """Return the texts in a response that can contain placeholders."""
    texts = []
    for part in event.message.parts:
        texts.append(part.arguments if isinstance(part, ToolCall) else part.text)
    return texts


def _names(now: Iterable[str], before: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the placeholders that are in the texts now but were not before.

    The names are in the order of the texts.
    """
    known = PLACEHOLDER.findall("\n".join(before))
    found = PLACEHOLDER.findall("\n".join(now))
    return tuple(name for name in dict.fromkeys(found) if name not in known)


def notice(names: Sequence[str]) -> str:
    """Return the notice for the user about secrets in a prompt."""
    listed = ", ".join(names)
    what = "a secret" if len(names) == 1 else "secrets"
    return (
        f"Your prompt contained {what} ({listed}). The model gets [REDACTED:…] instead, and so does"
        " the log. Put it into a file or an environment variable yourself, and tell the agent its"
        " name. To have prompts sent and stored as you write them, set guard.redact_prompts ="
        " false."
    )
