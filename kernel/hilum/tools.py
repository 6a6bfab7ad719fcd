"""Tools: typed functions with docstrings. A ``Call`` is the context of a running tool."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack, get_args, overload

import attrs
import msgspec

from hilum.arguments import BadArguments, decode_arguments
from hilum.errors import PluginError, ToolError
from hilum.hooks.failures import Mistake, locate_function, make_error, suggest
from hilum.messages import Image, ToolSpec
from hilum.signature import Signature, read, split_docstring

if TYPE_CHECKING:
    from hilum.agents import Agent
    from hilum.processes import Processes
    from hilum.session import Session
    from hilum.workspace import Workspace

Risk = Literal["read", "write", "execute", "network"]
Effect = Literal["pure", "idempotent", "once"]
Names = str | tuple[str, ...]
Timeout = float | Callable[[dict[str, Any]], float]
Paths = Names | Callable[[dict[str, Any]], Iterable[str]]
RISKS: tuple[str, ...] = get_args(Risk)
DEFAULT_TIMEOUT = 120.0
DEFAULT_GRACE = 3.0
EVERYTHING = "/"
"""A path that stands for all files, because a command may read any file.

A call that reads ``EVERYTHING`` waits for all earlier calls in its response that write.
"""

# Functions that return the value for a parameter with a given annotation. Agent and Session
# register themselves.
injected: dict[type, Callable[[Call], Any]] = {}


class Output(msgspec.Struct, frozen=True):
    """The result of a tool that returns more than text.

    Args:
        text: The text for the model.
        images: Images for the model.
        data: Plain data for faces (a diff, an exit code); never sent to the model.
        code: An ``E_…`` code, if the result is a failure with a long description.
        changed: Set to false by a tool that was meant to change something, but found everything
            already in the requested state. Such a call is not progress, so it counts as a
            repetition, as a call that only reads does.
    """

    text: str = ""
    images: tuple[Image, ...] = ()
    data: Mapping[str, Any] = {}
    code: str = ""
    changed: bool = True


class Call(msgspec.Struct, eq=False):
    """One tool call while it runs. A tool receives the call through a parameter annotated ``Call``.

    Attributes:
        id: The id of the call, which does not change when the session is resumed.
        name: Name of the tool.
        arguments: The checked arguments, by name.
        agent: The agent that made the call.
        session: The session of the agent.
        workspace: The folder that the session works in.
        processes: The object that starts child processes; there is no other way to start one.
        deadline: ``trio.current_time`` at which the call is cancelled.
        emit: A function that shows output while the call runs. The output reaches faces but not the
            model, and is not stored.
        output_so_far: A function that returns the output so far, which a tool can set. The model
            reads this output if the call is stopped.
        release_queues: A function that lets the next call in this response that uses the same
            ``queues`` begin before this call has ended.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    agent: Agent
    session: Session
    workspace: Workspace
    processes: Processes
    deadline: float
    emit: Callable[[str], None]
    release_queues: Callable[[], None] = lambda: None
    output_so_far: Callable[[], str] | None = None


injected[Call] = lambda call: call


def _one_of(choices: Any) -> Callable[[object, Any, object], None]:
    """Return an attrs validator that accepts the values of a literal type."""

    def check(_: object, attribute: Any, value: object) -> None:
        mistake = _check_choice(attribute.name, choices, value)
        if mistake is not None:
            raise make_error([mistake], PluginError)

    return check


def _check_choice(name: str, choices: Any, value: object, place: str = "") -> Mistake | None:
    """Return a mistake if a value is not one of the values of a literal type."""
    known = get_args(choices)
    if value in known:
        return None
    problem = f"The {name} of a tool is one of {', '.join(known)}, not {value!r}."
    return Mistake(problem, suggest(str(value), known), place)


def _names(names: Names) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)


def _paths(paths: Paths) -> tuple[str, ...] | Callable[[dict[str, Any]], Iterable[str]]:
    return paths if callable(paths) else _names(paths)


@attrs.define(eq=False, on_setattr=attrs.setters.NO_OP)
class Tool:
    """A tool: a function, the files and queues that it uses, and the effect of repeating a call.

    Args:
        name: The name for the model; it must match ``[a-zA-Z0-9_-]{1,64}``.
        description: The description for the model.
        function: The function, an ``async def`` or a ``def`` that does not block, which returns
            ``str``, ``Output`` or plain data.
        risk: The tool's permission category: ``read``, ``write``, ``execute`` or ``network``.
        effect: Whether a resumed session repeats an interrupted call: ``pure`` and ``idempotent``
            calls run again, ``once`` calls do not.
        timeout: Seconds after which a call is cancelled; a number, or a function of the checked
            arguments.
        grace: Seconds that a cancelled call has to end. A call that takes longer is abandoned,
            which counts as a failure of its plugin.
        writes: Names of parameters with paths that the tool writes. Calls in one response that
            conflict (one writes what the other reads or writes, or a folder above it) run in order;
            other calls run in parallel.
        reads: Names of parameters with paths that the tool reads, or a function of the checked
            arguments that returns the paths (``EVERYTHING`` for all files). A tool with the risk
            ``execute`` and without ``reads``, ``writes`` and ``queues`` reads ``EVERYTHING``.
        queues: Names of queues. Calls in one response that use the same queue run in order.
            ``"service {service}"`` inserts the argument ``service`` into the name.
        aim: A function of the checked arguments that returns the target of a call if it is not a
            path, for example the program that a command runs. Three failures in a row with the same
            aim and code are reported to the user.
        schema: The JSON Schema of the parameters, for a function that takes whatever the schema
            allows (MCP). By default, the schema comes from the function's signature and docstring,
            and the arguments are checked against it.
        deferred: Whether the tool is left out of the tool list and instead found with
            ``find_tools`` and called through ``call_tool``. A function of the agent can decide this
            (a tool for services is useless before there is a service).
        serves: A function that returns whether an agent may use the tool. The tool is not shown to
            other agents and does not run for them.
        changes_files: Whether a call may change files in the workspace that its parameters do not
            name, as a program may. The journal compares the files before and after such a call, as
            for every tool that executes commands.
        precheck: A function of the call that raises ``ToolError`` if the call cannot succeed, so
            that the user is not asked to approve it. It is called before the user is asked, after
            the gates have judged the call, and must have no effect. It may be async.
        plugin: Name of the plugin that the tool belongs to; the kernel sets it.
    """

    name: str
    description: str
    function: Callable[..., Any]
    risk: Risk = attrs.field(default="execute", validator=_one_of(Risk))
    effect: Effect = attrs.field(default="once", validator=_one_of(Effect))
    timeout: Timeout = DEFAULT_TIMEOUT
    grace: float = DEFAULT_GRACE
    writes: tuple[str, ...] = attrs.field(default=(), converter=_names)
    reads: tuple[str, ...] | Callable[[dict[str, Any]], Iterable[str]] = attrs.field(
        default=(), converter=_paths
    )
    queues: tuple[str, ...] = attrs.field(default=(), converter=_names)
    aim: Callable[[dict[str, Any]], str] | None = None
    schema: dict[str, Any] | None = None
    deferred: bool | Callable[[Any], bool] = False
    serves: Callable[[Any], bool] = lambda agent: True
    changes_files: bool = False
    precheck: Callable[[Call], Any] | None = None
    plugin: str = ""
    # Bound copies of a tool share one signature, because reading a signature takes much longer than
    # copying a tool.
    _signature: list[Signature] = attrs.field(factory=list, alias="signature")

    # The class is a descriptor, so that a tool that is defined in a class is bound to the instance
    # like a method.
    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        if instance is None:
            return self
        return attrs.evolve(
            self, function=functools.partial(self.function, instance), signature=self._signature
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function itself, without the checks of a tool call."""
        return self.function(*args, **kwargs)

    @property
    def signature(self) -> Signature:
        """The parameters as a struct type, their schema, and the injected parameters.

        The signature is read on first use.
        """
        if not self._signature:
            signature = read(self.function, name=self.name, injected=injected, error=self._wrong)
            self._check_paths(signature)
            self._signature.append(signature)
        return self._signature[0]

    def _check_paths(self, signature: Signature) -> None:
        """Check that ``writes`` and ``reads`` contain names of parameters."""
        if self.schema is not None:
            return
        reads = () if callable(self.reads) else self.reads
        known = signature.schema["properties"]
        problems = []
        for parameter in (*self.writes, *reads):
            if parameter not in known:
                problem = f"There is no parameter {parameter!r} to read or write."
                problems.append(f"{problem} {suggest(parameter, known)}".strip())
        if problems:
            raise self._wrong(f"{self.name}: {' '.join(problems)}")

    def _wrong(self, text: str) -> Exception:
        """Create the error for a mistake in the declaration, with the location of the function."""
        function = self.function
        if isinstance(function, functools.partial):  # a method
            function = function.func
        return make_error([Mistake(f"Tool {text}", place=locate_function(function))], PluginError)

    @property
    def spec(self) -> ToolSpec:
        """The tool's description for a model."""
        parameters = self.schema if self.schema is not None else self.signature.schema
        return ToolSpec(self.name, self.description, parameters)

    def check(self, arguments: str) -> dict[str, Any]:
        """Parse and check arguments that a model wrote.

        Args:
            arguments: JSON text; empty if there are no arguments.

        Returns:
            The arguments by name, with the types that the function declares.

        Raises:
            ToolError: ``"E_BAD_ARGS"``; the message names the invalid argument.
        """
        try:
            raw = decode_arguments(arguments)
        except BadArguments as error:
            raise ToolError(f"The arguments of {self.name} {error}.", code="E_BAD_ARGS") from None
        if self.schema is not None:
            # Such a function has no signature to check, and takes whatever its schema allows.
            return raw
        try:
            return self.signature.convert(raw)
        except msgspec.ValidationError as error:
            problem = f"The arguments of {self.name} are invalid: {error}."
            hint = f"Parameters: {self.signature.takes}."
            raise ToolError(problem, code="E_BAD_ARGS", hint=hint) from None

    def is_deferred(self, agent: Any) -> bool:
        """Return whether the tool is currently left out of an agent's tool list."""
        if callable(self.deferred):
            return self.deferred(agent)
        return self.deferred

    def time_limit(self, arguments: dict[str, Any]) -> float:
        """Return the maximum number of seconds that a call with these arguments may take."""
        return float(self.timeout(arguments) if callable(self.timeout) else self.timeout)

    def paths_written(self, arguments: dict[str, Any]) -> list[str]:
        """Return the paths that a call writes, as spelled in its arguments."""
        return _named(arguments, self.writes)

    def paths_read(self, arguments: dict[str, Any]) -> list[str]:
        """Return the paths that a call reads, as spelled in its arguments."""
        if callable(self.reads):
            return list(self.reads(arguments))
        if self.risk == "execute" and not (self.reads or self.writes or self.queues):
            return [EVERYTHING]
        return _named(arguments, self.reads)

    def queue_names(self, arguments: dict[str, Any]) -> list[str]:
        """Return the names of the queues that a call belongs to."""
        return [queue.format_map(arguments) for queue in self.queues]

    async def check_before_asking(self, call: Call) -> None:
        """Check that a call can succeed, before the user is asked to approve it.

        Raises:
            ToolError: The call cannot succeed.
        """
        if self.precheck is not None:
            found = self.precheck(call)
            if inspect.isawaitable(found):
                await found

    async def run(self, call: Call) -> Output:
        """Run the function with the call's arguments and its injected parameters."""
        if self.schema is not None:
            value = self.function(call, **call.arguments)
        else:
            extra = {name: give(call) for name, give in self.signature.injected.items()}
            value = self.function(**call.arguments, **extra)
        if inspect.isawaitable(value):
            value = await value
        if value is None or isinstance(value, str):
            value = Output(value or "")
        if isinstance(value, Output):
            return value
        return Output(msgspec.json.encode(value).decode())


def _named(arguments: dict[str, Any], names: Iterable[str]) -> list[str]:
    """Return the paths in the named arguments, each of which is a text or a list of texts."""
    found: list[str] = []
    for name in names:
        value = arguments.get(name)
        values = value if isinstance(value, list | tuple) else [value]
        found += [str(path) for path in values if path]
    return found


class Options(TypedDict, total=False):
    """The options of ``tool``."""

    risk: Risk
    effect: Effect
    timeout: Timeout
    grace: float
    writes: Names
    reads: Paths
    queues: Names
    aim: Callable[[dict[str, Any]], str]
    name: str
    deferred: bool | Callable[[Any], bool]
    precheck: Callable[[Call], Any]


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(**options: Unpack[Options]) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Callable[..., Any] | None = None, /, **options: Any
) -> Tool | Callable[[Callable[..., Any]], Tool]:
    """Create a tool from a function or method; its name, docstring and signature are the tool's.

    Parameters annotated ``Call``, ``Session`` or ``Agent`` are injected; all others come from the
    model and need an annotation. ``Annotated[int, msgspec.Meta(ge=1)]`` adds constraints. The
    docstring is Google style; its ``Args:`` section describes the parameters.

    Args:
        function: The function, when used without parentheses.
        options: The following options, all of which are optional: ``risk``, the tool's permission
            category: ``read``, ``write``, ``execute`` (default) or ``network``; ``effect``, the
            effect of repeating a call: ``pure``, ``idempotent`` or ``once`` (default); ``timeout``,
            seconds, or a function of the arguments that returns seconds; ``grace``, seconds that a
            cancelled call has to end before it is abandoned; ``writes``, parameters with paths that
            the tool writes; ``reads``, parameters with paths that the tool reads, or a function of
            the arguments that returns the paths; ``queues``, names of queues in which calls run in
            order; ``aim``, a function of the arguments that returns the target of a call, if it is
            not a path; ``name``, the name for the model, if it differs from the function's name;
            ``deferred``, whether the model finds the tool through ``find_tools`` and not in its
            tool list; ``precheck``, a function of the ``Call`` that raises ``ToolError`` if the
            call cannot succeed, before the user is asked to approve it.

    Raises:
        PluginError: An option does not exist or has a wrong value; the error lists all mistakes.
    """
    if function is None:
        return functools.partial(tool, **options)
    mistakes = _check_options(options, locate_function(function))
    if mistakes:
        raise make_error(mistakes, PluginError)
    named = {"name": function.__name__, **options}
    return Tool(
        description=split_docstring(inspect.getdoc(function) or "")[0], function=function, **named
    )


def _check_options(options: Mapping[str, Any], place: str) -> list[Mistake]:
    """Return the mistakes in the options of ``tool``."""
    mistakes = []
    choices = {"risk": Risk, "effect": Effect}
    known = {str(field.alias) for field in attrs.fields(Tool)} - {
        "description",
        "function",
        "signature",
    }
    for name, value in options.items():
        if name not in known:
            hint = suggest(name, known) or f"Options are {', '.join(sorted(known))}."
            mistakes.append(Mistake(f"A tool has no option {name!r}.", hint, place))
        elif name in choices:
            mistake = _check_choice(name, choices[name], value, place)
            if mistake is not None:
                mistakes.append(mistake)
    return mistakes
