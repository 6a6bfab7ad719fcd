"""Tools: a typed function with a docstring is one. ``Call`` is what a running tool sees of the world."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args, overload

import attrs
import msgspec
from hilum_signature import Signature, read, split_docstring

from hilum.errors import PluginError, ToolError
from hilum.messages import Image, ToolSpec

if TYPE_CHECKING:
    from hilum.processes import Processes
    from hilum.workspace import Workspace

Risk = Literal["read", "write", "execute", "network"]
Effect = Literal["pure", "idempotent", "once"]
Names = str | tuple[str, ...]
Timeout = float | Callable[[dict[str, Any]], float]
RISKS: tuple[str, ...] = get_args(Risk)
DEFAULT_TIMEOUT = 120.0

# How a parameter annotated with such a type is filled; Agent and Session register themselves.
injected: dict[type, Callable[[Call], Any]] = {}


class Output(msgspec.Struct, frozen=True):
    """What a tool may return when text is not enough.

    Args:
        text: What the model reads.
        images: Images for the model.
        data: Plain data for faces (a diff, an exit code); never sent to the model.
        code: An ``E_…`` code if this is a failure that the tool wants to describe at length.
    """

    text: str = ""
    images: tuple[Image, ...] = ()
    data: Mapping[str, Any] = {}
    code: str = ""


class Call(msgspec.Struct, eq=False):
    """One tool call while it runs. A tool asks for it with a parameter annotated ``Call``.

    Attributes:
        id: The call's id, the same after a resume.
        name: Name of the tool.
        arguments: The checked arguments, by name.
        agent: The agent that calls.
        session: Its session.
        workspace: The folder the session works in.
        processes: The only way to start a process.
        deadline: ``trio.current_time`` at which the call is cancelled.
        emit: Shows output while the call runs. It reaches faces, not the model, and is not stored.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    agent: Any
    session: Any
    workspace: Workspace
    processes: Processes
    deadline: float
    emit: Callable[[str], None]


injected[Call] = lambda call: call


def _wrong(text: str) -> PluginError:
    return PluginError(f"Tool {text}")


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Tool:
    """A tool: a function, what it touches, and what repeating it would do.

    Args:
        name: Name the model uses, ``[a-zA-Z0-9_-]{1,64}``.
        description: What it does, for the model.
        function: ``async def`` or ``def`` (a ``def`` must not block); gives ``str``, ``Output``, or plain data.
        risk: What it touches: ``read``, ``write``, ``execute`` or ``network``.
        effect: What a resume may do with a call that was cut off: ``pure`` and ``idempotent`` run again, ``once`` does not.
        timeout: Seconds after which a call is cancelled; a number, or a function of the checked arguments.
        writes: Names of parameters that hold paths it writes; calls that write one path run one after another.
        schema: JSON Schema of the parameters, for tools whose function takes whatever the schema allows (MCP). Without it
            the schema comes from the function's signature and docstring, and the arguments are checked against it.
        late: Whether it stands in no tool list and is reached through ``find_tools`` and ``call_tool`` only; for that the
            session's ``expects_tools`` must be set.
        serves: Tells whether an agent may use it; it is neither shown to others nor runs for them.
        plugin: Name of the plugin it belongs to; the kernel fills it in.
    """

    name: str
    description: str
    function: Callable[..., Any]
    risk: Risk = "execute"
    effect: Effect = "once"
    timeout: Timeout = DEFAULT_TIMEOUT
    writes: tuple[str, ...] = attrs.field(default=(), converter=_names)
    schema: dict[str, Any] | None = None
    late: bool = False
    serves: Callable[[Any], bool] = lambda agent: True
    plugin: str = ""
    # Bound copies of one tool share the signature that was read for the first of them.
    _signature: list[Signature] = attrs.field(factory=list, alias="signature")

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        if instance is None:
            return self
        return attrs.evolve(self, function=functools.partial(self.function, instance), signature=self._signature)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, as if it were no tool."""
        return self.function(*args, **kwargs)

    @property
    def signature(self) -> Signature:
        """The parameters as a struct type, their schema, and what is injected; read at first use."""
        if not self._signature:
            self._signature.append(read(self.function, name=self.name, injected=injected, error=_wrong))
        return self._signature[0]

    @property
    def spec(self) -> ToolSpec:
        """The tool as a model sees it."""
        parameters = self.schema if self.schema is not None else self.signature.schema
        return ToolSpec(self.name, self.description, parameters)

    def check(self, arguments: str) -> dict[str, Any]:
        """Parse and check arguments as a model wrote them.

        Args:
            arguments: JSON text; empty stands for no arguments.

        Returns:
            The arguments by name, of the types that the function declares.

        Raises:
            ToolError: ``"E_BAD_ARGS"``, with a message that names the place.
        """
        try:
            raw = msgspec.json.decode(arguments or "{}", type=dict[str, Any])
        except (msgspec.DecodeError, UnicodeError) as error:
            problem = f"The arguments of {self.name} are not valid JSON, or not a JSON object: {error}."
            raise ToolError(problem, code="E_BAD_ARGS") from None
        if self.schema is not None:
            return raw
        try:
            return self.signature.convert(raw)
        except msgspec.ValidationError as error:
            problem, hint = f"The arguments of {self.name} do not fit: {error}.", f"Parameters: {self.signature.takes}."
            raise ToolError(problem, code="E_BAD_ARGS", hint=hint) from None

    def time_limit(self, arguments: dict[str, Any]) -> float:
        """Seconds this call may take."""
        return float(self.timeout(arguments) if callable(self.timeout) else self.timeout)

    async def run(self, call: Call) -> Output:
        """Run the function with the call's arguments and what it wants injected."""
        if self.schema is not None:
            value = self.function(call, **call.arguments)
        else:
            extra = {name: give(call) for name, give in self.signature.injected.items()}
            value = self.function(**call.arguments, **extra)
        if inspect.isawaitable(value):
            value = await value
        if value is None or isinstance(value, str):
            value = Output(value or "")
        return value if isinstance(value, Output) else Output(msgspec.json.encode(value).decode())


class Options(TypedDict, total=False):
    """What ``tool`` takes."""

    risk: Risk
    effect: Effect
    timeout: Timeout
    writes: Names
    name: str


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Make a tool of a function or method: its name, docstring and signature are the tool's.

    Parameters annotated ``Call``, ``Session`` or ``Agent`` are injected; all others come from the model and need an
    annotation. ``Annotated[int, msgspec.Meta(ge=1)]`` adds constraints. The docstring is Google style; what stands under
    ``Args:`` describes the parameters.

    Args:
        function: The function, when used without parentheses.
        options: By name, all of them optional:
            ``risk``, what it touches: ``read``, ``write``, ``execute`` (default) or ``network``;
            ``effect``, what repeating it would do: ``pure``, ``idempotent`` or ``once`` (default);
            ``timeout``, seconds, or a function of the arguments that gives seconds;
            ``writes``, parameters that hold paths it writes;
            ``name``, name for the model, when it should differ from the function's.
    """
    if function is None:
        return functools.partial(tool, **options)
    named = {"name": function.__name__, **options}
    return Tool(description=split_docstring(inspect.getdoc(function) or "")[0], function=function, **named)
