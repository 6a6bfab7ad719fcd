"""The types of ``hilum.blocking`` say what becomes of the kernel's classes.

Here they are held against those.
"""

import ast
import inspect
from pathlib import Path

import hilum.blocking
import pytest
from hilum import kernel, session, standard

STUB = ast.parse(Path(hilum.blocking.__file__).with_suffix(".pyi").read_text())
PLAIN = {"Reader": "Iterator[AnyEvent | Delta]"}  # what else the host gets in its own kind


def functions(body):
    """Public functions and methods by name, without those that the kernel alone calls."""
    defs = (node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {
        node.name: node
        for node in defs
        if node.name[0] != "_" and node.name not in ("start", "close")
    }


def plain(node):
    """What a function of the kernel is in plain code: its parameters, and its result."""
    result = ast.unparse(node.returns).replace("ev.", "")  # the kernel's name for hilum.events
    if "asynccontextmanager" in [ast.unparse(decorator) for decorator in node.decorator_list]:
        result = result.replace("AsyncIterator", "AbstractContextManager")
    result = result.replace("AsyncIterator", "Iterator")
    arguments = ast.unparse(node.args).replace(
        "kernel.Kernel", "Kernel"
    )  # a callback runs on the trio side
    return arguments, PLAIN.get(result, result)


def changed(node):
    """Whether a function of the kernel has another type in plain code: it is async, or gives what
    is.
    """
    words = {n.id for n in ast.walk(node.returns) if isinstance(n, ast.Name)}
    if node.name == "find_session":
        return False
    return isinstance(node, ast.AsyncFunctionDef) or bool(
        words & {"Kernel", "Session", "Run", *PLAIN}
    )


@pytest.mark.parametrize(
    "kind", [kernel.Kernel, session.Session, session.Run, kernel], ids=lambda kind: kind.__name__
)
def test_types_of_plain_code_are_those_of_the_kernel(kind):
    """Each method that is another one in plain code stands there, with the same parameters.

    No other does.
    """
    found = ast.parse(inspect.getsource(kind)).body
    if kind is kernel:
        found += ast.parse(inspect.getsource(standard)).body
    stub = STUB.body
    if inspect.isclass(kind):
        found = found[0].body
        stub = next(
            node for node in stub if isinstance(node, ast.ClassDef) and node.name == kind.__name__
        ).body
    meant = {name: plain(node) for name, node in functions(found).items() if changed(node)}
    assert {name: plain(node) for name, node in functions(stub).items()} == meant
    assert meant
