"""Secrets are taken out of every event before it is written.

What is written is what the conversation holds from then on.

The kernel knows no secrets: plugins replace them (``redact_texts``). It knows where texts are, and
what must stay as it is: identifiers, and what only a vendor can read.

Where a plugin fails, texts are withheld: a prompt is refused, a run ends, and what is written all
the same has a placeholder.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Container, Iterable, Sequence
from typing import Any, Literal, TypeVar

import msgspec
from hilum_hooks import Table

from hilum.arguments import safe_answer
from hilum.errors import PluginError
from hilum.events import Event, ModelAnswered, PluginFault, PromptQueued, RunStarted, SessionOpened
from hilum.messages import AssistantMessage, Image, Text, Thinking, ToolCall, ToolResult

HOOK = "redact_texts"
PLACEHOLDER = re.compile(r"\[REDACTED:([^\]\s]{1,200})\]")
WITHHELD = "[WITHHELD: it could not be searched for secrets]"
# Shorter texts hold no secret that could be told from a word.
MIN_LENGTH = 8
# Characters of new texts in one event, above which they are searched in a thread. The guard's
# redactor takes 0.1 to 0.7 ms for 1,000 characters.
IN_THREAD = 20_000
# Characters of texts whose result is kept. One answer may have 128 calls with arguments of
# 4,000,000.
MAX_KEPT = 8_000_000
# A vendor's own field is plain up to this length; longer ones may be a signature of the text beside
# them.
MAX_PLAIN_FIELD = 64
# An event is walked again while new texts turn up: those inside arguments, then the arguments as a
# whole.
MAX_PASSES = 5
# Identifiers, which others refer to, and what a vendor must get back unchanged.
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
        "vendor",
    }
    | {
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
    }
)
_NO_TEXTS = (SessionOpened, Image)
Origin = Literal["prompt", "model", "arguments", "result", "other"]
Lookup = Callable[[str, Origin], str]
E = TypeVar("E", bound=Event)


class Redaction:
    """Takes secrets out of the events of one session.

    Args:
        hooks: The hooks of the session.

    Attributes:
        names: Names of the secrets that were replaced in prompts and answers so far.
        opened: Whether the plugins have opened. Before that nobody has said anything yet.
    """

    def __init__(self, hooks: Table) -> None:
        self.names: set[str] = set()
        self.opened = False
        self._hooks = hooks
        self._kept: OrderedDict[tuple[Origin, str], str] = OrderedDict()
        self._size = 0
        # Sentences of the kernel's own that say what is wrong, for when nothing can be searched.
        self._own: set[str] = {WITHHELD}

    def problem(self) -> str:
        """Return why texts cannot be searched, empty if they can."""
        if not self.opened:
            return ""
        for plugin, reason in self._hooks.closed.get(HOOK, {}).items():
            return (
                f"The plugin {plugin!r}, which takes secrets out of texts, is not in working order"
                f" ({reason})."
            )
        return ""

    def check(self) -> None:
        """Raise an error where texts cannot be searched.

        Raises:
            PluginError: A plugin that takes secrets out of texts is not in working order.
        """
        problem = self.problem()
        if problem:
            raise self._error(problem)

    def _error(self, problem: str) -> PluginError:
        hint = (
            "Block the plugin by name to work without it: plugins.block in settings.toml, or"
            " --no-plugin."
        )
        self._own |= {problem, hint}
        return PluginError(problem, hint=hint)

    # --- asking -----------------------------------------------------------------------------------

    def event(self, event: E, *, by_model: bool = False) -> E:
        """Return an event as it may be written. What cannot be searched is withheld.

        Args:
            event: The event.
            by_model: Whether a model wrote the prompts of its agent.
        """
        if isinstance(event, PluginFault) and event.hook == HOOK:
            return event  # its text quotes nothing, and to search it would fail for the same reason
        if self.problem():
            # How a plugin failed must be seen; nothing that was said goes on while texts cannot be
            # searched.
            if isinstance(event, PluginFault):
                return event
            return self._marked(event, self._withheld)
        if not self._hooks.implemented(HOOK):
            return event
        found: dict[tuple[Origin, str], str] = {}
        for _ in range(MAX_PASSES):
            walk = _Walk(self, found, by_model=by_model)
            changed = self._marked(event, walk.lookup)
            if not walk.missing:
                return changed
            for origin, texts in walk.missing.items():
                try:
                    answers = self._hooks.filter(HOOK, "texts", texts=tuple(texts), origin=origin)
                    self._keep(found, origin, texts, answers)
                except PluginError:
                    return self._marked(event, self._withheld)
        return self._marked(event, self._withheld)

    async def prepare(self, event: Event, *, by_model: bool = False) -> None:
        """Search an event that is about to be written, in a thread where it is large.

        Args:
            event: The event.
            by_model: Whether a model wrote the prompts of its agent.

        Raises:
            PluginError: It cannot be searched.
        """
        self.check()
        if not self._hooks.implemented(HOOK):
            return
        found: dict[tuple[Origin, str], str] = {}
        for _ in range(MAX_PASSES):
            walk = _Walk(self, found, by_model=by_model)
            self._marked(event, walk.lookup)
            if not walk.missing:
                return
            for origin, texts in walk.missing.items():
                await self._ask(found, origin, texts)

    async def texts(self, texts: Sequence[str], origin: Origin = "other") -> list[str]:
        """Return texts without secrets, each withheld where it cannot be searched."""
        found: dict[tuple[Origin, str], str] = {}
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

    async def prompt(self, text: str, *, by_model: bool) -> PromptQueued:
        """Return the event of a prompt, without its secrets.

        Raises:
            PluginError: It cannot be searched.
        """
        event = PromptQueued(text=text)
        await self.prepare(event, by_model=by_model)
        return self.event(event, by_model=by_model)

    def call_id(self, identity: str) -> str:
        """Return the id of a call that a model is writing, empty where a secret is in it."""
        if len(identity) < MIN_LENGTH or not self._hooks.implemented(HOOK):
            return identity
        known = self.known(("model", identity))
        if known is None:
            try:
                self._keep(
                    {},
                    "model",
                    [identity],
                    self._hooks.filter(HOOK, "texts", texts=(identity,), origin="model"),
                )
            except PluginError:
                return ""
            known = self.known(("model", identity))
        return identity if known == identity else ""

    async def loggable(self, answer: AssistantMessage) -> AssistantMessage:
        """Return an answer that was given where no tools are offered, as it may be written to the
        log.
        """
        return safe_answer(await self.call_names(answer, ()))

    async def call_names(
        self, message: AssistantMessage, tools: Container[str]
    ) -> AssistantMessage:
        """Return an answer of a model whose calls have names and ids without secrets.

        Both are identifiers in the log, and nothing in a log replaces those. A name that is no tool
        is free text of the model, and so is an id.

        Args:
            message: The answer, as it came.
            tools: Names of the tools that exist.
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
                # An empty id is replaced by one of the kernel's own.
                if cleaned.get(part.id) == part.id:
                    identity = part.id
                else:
                    identity = ""
                parts.append(msgspec.structs.replace(part, name=name, id=identity))
            else:
                parts.append(part)
        return msgspec.structs.replace(message, parts=tuple(parts))

    async def _ask(
        self, found: dict[tuple[Origin, str], str], origin: Origin, texts: Iterable[str]
    ) -> None:
        asked = tuple(texts)
        try:
            if sum(map(len, asked)) > IN_THREAD:
                answers = await self._hooks.filter_in_thread(
                    HOOK, "texts", texts=asked, origin=origin
                )
            else:
                answers = self._hooks.filter(HOOK, "texts", texts=asked, origin=origin)
            self._keep(found, origin, asked, answers)
        except PluginError as error:
            raise self._error(
                f"A text could not be searched for secrets. {error.message}"
            ) from None

    def _keep(
        self,
        found: dict[tuple[Origin, str], str],
        origin: Origin,
        texts: Iterable[str],
        answers: Sequence[str],
    ) -> None:
        asked = tuple(texts)
        if isinstance(answers, str) or len(answers) != len(asked):
            raise PluginError(f"A plugin gave {len(answers)} texts for {len(asked)}.")
        for text, answer in zip(asked, answers, strict=True):
            for key, value in (((origin, text), answer), ((origin, answer), answer)):
                found[key] = value
                if key not in self._kept:
                    self._size += len(key[1])
                self._kept[key] = value
        while self._size > MAX_KEPT:
            (_, text), _ = self._kept.popitem(last=False)
            self._size -= len(text)

    def known(self, key: tuple[Origin, str]) -> str | None:
        """Return the result for a text that was searched lately."""
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
        """Return an event with its texts replaced, and with the names of what was replaced."""
        changed = _walk(event, lookup, "other")
        if isinstance(event, PromptQueued):
            names = _names([changed.text], [event.text])
            self.names.update(names)
            return msgspec.structs.replace(changed, redacted=names) if names else changed  # type: ignore[no-any-return]
        if isinstance(event, ModelAnswered):
            now = changed.message.calls
            before = event.message.calls
            withheld = [
                one.id
                for one, two in zip(now, before, strict=True)
                if one.arguments != two.arguments
            ]
            names = _names(_texts(changed), _texts(event))
            self.names.update(names)
            if names or withheld:
                return msgspec.structs.replace(changed, redacted=names, withheld=tuple(withheld))  # type: ignore[no-any-return]
        return changed  # type: ignore[no-any-return]


class _Walk:
    """One walk through an event: looks texts up, and collects those that nobody has searched
    yet.
    """

    def __init__(
        self, redaction: Redaction, found: dict[tuple[Origin, str], str], *, by_model: bool = False
    ) -> None:
        self._redaction = redaction
        self._found = found
        self._by_model = by_model
        self.missing: dict[Origin, dict[str, None]] = {}

    def lookup(self, text: str, origin: Origin) -> str:
        """Return a text without secrets; as it is where nobody has searched it yet."""
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


def _walk(value: Any, lookup: Lookup, origin: Origin) -> Any:
    """Return plain data or a struct with its texts looked up.

    The same object where nothing changes.
    """
    if isinstance(value, str):
        return lookup(value, origin)
    if isinstance(value, _NO_TEXTS) or value is None or isinstance(value, int | float | bytes):
        return value
    if isinstance(value, dict):
        walked = {key: _walk(inner, lookup, origin) for key, inner in value.items()}
        if any(walked[key] is not inner for key, inner in value.items()):
            return walked
        return value
    if isinstance(value, list | tuple):
        items = [_walk(inner, lookup, origin) for inner in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, msgspec.Struct):
        return _walk_struct(value, lookup, origin)
    return value


def _walk_struct(value: Any, lookup: Lookup, origin: Origin) -> Any:
    if isinstance(value, ToolCall):
        arguments = _walk_arguments(value.arguments, lookup)
        problem = lookup(value.problem, "model")
        if (arguments, problem) == (value.arguments, value.problem):
            return value
        return msgspec.structs.replace(value, arguments=arguments, problem=problem)
    if isinstance(value, Thinking):
        return _walk_thinking(value, lookup)
    if isinstance(value, Text):
        sources: dict[str, Origin] = {"user": "prompt", "model": "model"}
        text = lookup(
            value.text, origin if origin == "result" else sources.get(value.source, "other")
        )
        if text is value.text:
            return value
        return msgspec.structs.replace(value, text=text)
    if isinstance(value, ToolResult):
        origin = "result"
    changes: dict[str, Any] = {}
    for field in value.__struct_fields__:
        if field in _LEFT_ALONE:
            continue
        inner = getattr(value, field)
        if field == "text" and isinstance(value, PromptQueued | RunStarted):
            new = lookup(inner, "prompt")
        elif field == "original" and isinstance(inner, str):
            new = _walk_arguments(inner, lookup)
        else:
            new = _walk(inner, lookup, origin)
        if new is not inner:
            changes[field] = new
    if changes:
        return msgspec.structs.replace(value, **changes)
    return value


def _walk_thinking(part: Thinking, lookup: Lookup) -> Thinking:
    """Return reasoning without secrets.

    What a vendor signed must go back as it was or not at all. So where a secret is in it, the
    vendor's fields are left out, and the gateways then leave out the block. A plain field only says
    where the vendor wants the text.
    """
    text = lookup(part.text, "model")
    vendor = _walk(part.vendor, lookup, "model")
    if text == part.text and vendor == part.vendor:
        return part
    plain = all(
        isinstance(field, str) and len(field) <= MAX_PLAIN_FIELD for field in part.vendor.values()
    )
    return Thinking(text, part.vendor if plain and vendor == part.vendor else {})


def _walk_arguments(text: str, lookup: Lookup) -> str:
    """Return the arguments of a call without secrets.

    What was a JSON object stays one; unchanged ones keep their spelling.

    Texts are looked up as they are meant, without escapes, and then together: a name may say what
    its value is.
    """
    try:
        decoded = msgspec.json.decode(text or "{}", type=dict[str, Any])
    except (ValueError, RecursionError):
        return lookup(text, "arguments")
    cleaned = _walk_json(decoded, lookup)
    spelled = text if cleaned == decoded else msgspec.json.encode(cleaned).decode()
    whole = lookup(spelled, "arguments")
    if whole == spelled:
        return spelled
    try:
        msgspec.json.decode(whole, type=dict[str, Any])
    except (ValueError, RecursionError):
        found = PLACEHOLDER.search(whole)
        return msgspec.json.encode({"withheld": found.group() if found else WITHHELD}).decode()
    return whole


def _walk_json(value: Any, lookup: Lookup) -> Any:
    """Return decoded JSON without secrets, in keys and numbers as well."""
    if isinstance(value, str):
        return lookup(value, "arguments")
    if isinstance(value, dict):
        walked: dict[str, Any] = {}
        # The last number that each name got: to count from one for every key would take quadratic
        # time.
        numbers: dict[str, int] = {}
        for key, inner in value.items():
            cleaned = lookup(key, "arguments")
            name = cleaned
            while name in walked:  # two secrets of one name
                numbers[cleaned] = numbers.get(cleaned, 1) + 1
                name = f"{cleaned}-{numbers[cleaned]}"
            walked[name] = _walk_json(inner, lookup)
        return walked
    if isinstance(value, list):
        return [_walk_json(inner, lookup) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        spelled = repr(value)
        cleaned = lookup(spelled, "arguments")
        return value if cleaned == spelled else cleaned
    return value


def _texts(event: ModelAnswered) -> list[str]:
    """Return the texts of an answer in which names of secrets can be."""
    return [
        part.arguments if isinstance(part, ToolCall) else part.text for part in event.message.parts
    ]


def _names(now: Iterable[str], before: Iterable[str]) -> tuple[str, ...]:
    """Return the names of the placeholders that texts have now and did not have before, in
    order.
    """
    known = {name for text in before for name in PLACEHOLDER.findall(text)}
    return tuple(
        dict.fromkeys(
            name for text in now for name in PLACEHOLDER.findall(text) if name not in known
        )
    )


def notice(names: Sequence[str]) -> str:
    """Return what the user is told of a prompt with secrets."""
    listed = ", ".join(names)
    what = "a secret" if len(names) == 1 else "secrets"
    return (
        f"Your prompt held {what} ({listed}). The model gets [REDACTED:…] instead, and so does the"
        " log. Put it into a file or an environment variable yourself, and tell the agent its"
        " name. To have prompts sent and stored as you write them, set guard.redact_prompts ="
        " false."
    )
