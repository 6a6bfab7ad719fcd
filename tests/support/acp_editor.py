"""An editor for tests of ``hilum acp``: checks every message against the protocol's JSON Schema.

It shares no code with hilum. Extra members pass the schema, so it also looks for members that the
schema does not define.
"""

import json
import os
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path

import trio
from editor_terminals import EditorTerminal
from jsonschema import Draft202012Validator

SCHEMA = Path(__file__).parents[1] / "plugins" / "acp" / "schema" / "acp-v1.schema.json"
LIMIT = 60
EVERYTHING = {
    "fs": {"readTextFile": True, "writeTextFile": True},
    "terminal": True,
    "session": {"notices": {}, "compaction": {}, "configOptions": {"boolean": {}}},
    "auth": {"terminal": True},
    "elicitation": {"form": {}, "url": {}},
}


@cache
def definitions():
    return json.loads(SCHEMA.read_text())["$defs"]


@cache
def method_types():
    """The names of the definitions, by method and ``Request``, ``Response`` or ``Notification``."""
    found = {}
    for name, definition in definitions().items():
        for ending in ("Request", "Response", "Notification"):
            if name.endswith(ending) and "x-method" in definition:
                found[definition["x-method"], ending] = name
    return found


@cache
def validator(name):
    schema = {"$ref": f"#/$defs/{name}", "$defs": definitions()}
    return Draft202012Validator(schema)


def check(name, value):
    """Check a value, with all its members, against a definition."""
    problems = [
        f"{error.json_path}: {error.message[:300]}" for error in validator(name).iter_errors(value)
    ]
    assert not problems, (name, value, problems)
    unknown = list(find_unknown({"$ref": f"#/$defs/{name}"}, value, "$"))
    assert not unknown, (name, unknown)


def find_unknown(schema, value, path):
    """Yield the paths of members that no applicable part of the schema defines."""
    if isinstance(value, list):
        for items in collect(schema, value, "items"):
            for index, item in enumerate(value):
                yield from find_unknown(items, item, f"{path}[{index}]")
    if not isinstance(value, dict):
        return
    known = {}
    for properties in collect(schema, value, "properties"):
        for name, part in properties.items():
            known.setdefault(name, []).append(part)
    if not known or any(collect(schema, value, "additionalProperties")):
        return
    for name, member in value.items():
        if name == "_meta":
            continue
        if name not in known:
            yield f"{path}.{name}"
        for part in known.get(name, ()):
            if name != "rawInput":
                yield from find_unknown(part, member, f"{path}.{name}")


def collect(schema, value, keyword):
    """Return the values of a keyword in all parts of a schema that apply to a value."""
    if not isinstance(schema, dict):
        return []
    found = [schema[keyword]] if keyword in schema else []
    if "$ref" in schema:
        found += collect(definitions()[schema["$ref"].rpartition("/")[2]], value, keyword)
    for part in schema.get("allOf", ()):
        found += collect(part, value, keyword)
    for part in (*schema.get("oneOf", ()), *schema.get("anyOf", ())):
        whole = {**part, "$defs": definitions()}
        if Draft202012Validator(whole).is_valid(value):
            found += collect(part, value, keyword)
    return found


class Refused(Exception):
    """An error response of hilum."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.code = error["code"]
        self.data = error.get("data")


class Editor:
    """An editor with a process of ``hilum acp``.

    Attributes:
        updates: All updates, in order.
        requests: All requests of hilum, as method and parameters, in order.
        buffers: The unsaved texts, by absolute path.
        permit: Returns the kind or id of the option to choose; ``None`` never answers, and an
            outcome is sent as it is.
        fill: Returns the response to a form.
        create: Changes or refuses the request for a terminal: returns its parameters, or an error.
        terminals: The terminals, by id.
    """

    def __init__(self, process, stdin, stdout):
        self.process = process
        self.stdin = stdin
        self.stdout = stdout
        self.updates = []
        self.requests = []
        self.cancelled = []
        self.buffers = {}
        self.permit = lambda params: "allow_once"
        self.fill = lambda params: {"action": "decline"}
        self.create = lambda params: params
        self.terminals = {}
        self.news = trio.Event()
        self.raw = []
        self._answers = {}
        self._methods = {}
        self._number = 0
        self._asked = trio.Event()
        # Answers and requests are sent by different tasks.
        self._sending = trio.Lock()

    async def send_raw(self, data):
        async with self._sending:
            await self.stdin.send_all(data)

    async def _send(self, message):
        await self.send_raw(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")

    async def notify(self, method, **params):
        check(method_types()[method, "Notification"], params)
        await self._send({"method": method, "params": params})

    async def begin(self, method, **params):
        """Send a request, and return its number."""
        if (method, "Request") in method_types():
            check(method_types()[method, "Request"], params)
        self._number += 1
        self._methods[self._number] = method
        await self._send({"id": self._number, "method": method, "params": params})
        return self._number

    async def end(self, number):
        """Return the result of a request."""
        await self.wait_for(lambda: number in self._answers)
        answer = self._answers.pop(number)
        if "error" in answer:
            raise Refused(answer["error"])
        return answer["result"]

    async def request(self, method, **params):
        return await self.end(await self.begin(method, **params))

    async def wait_for(self, condition):
        with trio.fail_after(LIMIT):
            while not condition():
                await self.news.wait()

    async def initialize(self, version=1, **abilities):
        return await self.request(
            "initialize",
            protocolVersion=version,
            clientCapabilities=abilities,
            clientInfo={"name": "test", "version": "1"},
        )

    async def prompt(self, session, text, *blocks):
        blocks = [*blocks, {"type": "text", "text": text}] if text else list(blocks)
        return await self.request("session/prompt", sessionId=session, prompt=blocks)

    def of(self, kind):
        """Return the updates of a kind."""
        return [each for each in self.updates if each["sessionUpdate"] == kind]

    def text(self, kind="agent_message_chunk"):
        return "".join(each["content"]["text"] for each in self.of(kind))

    def calls(self):
        """Return the tool calls, each with its last state."""
        calls = {}
        for update in self.updates:
            if update["sessionUpdate"].startswith("tool_call"):
                calls.setdefault(update["toolCallId"], {}).update(update)
        return list(calls.values())

    async def read(self):
        """Read until hilum closes its output, and answer its requests."""
        buffer = b""
        async with trio.open_nursery() as nursery:
            while data := await self.stdout.receive_some(65536):
                *lines, buffer = (buffer + data).split(b"\n")
                for line in lines:
                    self._receive(json.loads(line), nursery)
            assert not buffer, buffer
            nursery.cancel_scope.cancel()

    def _receive(self, message, nursery):
        self.raw.append(message)
        assert message.pop("jsonrpc") == "2.0"
        if "method" not in message:
            method = self._methods.get(message["id"])
            if "error" in message:
                check("Error", message["error"])
            else:
                check(method_types()[method, "Response"], message["result"])
            assert message.keys() in ({"id", "result"}, {"id", "error"})
            self._answers[message["id"]] = message
        elif "id" in message:
            check(method_types()[message["method"], "Request"], message["params"])
            self.requests.append((message["method"], message["params"]))
            nursery.start_soon(self._answer_unless_closed, message, nursery)
        elif message["method"] == "$/cancel_request":
            check("CancelRequestNotification", message["params"])
            self.cancelled.append(message["params"]["requestId"])
        else:
            check(method_types()[message["method"], "Notification"], message["params"])
            self.updates.append(message["params"]["update"])
        self._wake()

    async def _answer_unless_closed(self, message, nursery):
        try:
            await self._answer(message, nursery)
        except (trio.ClosedResourceError, trio.BrokenResourceError):
            # The test has closed hilum's input, or hilum has ended.
            pass

    async def _answer(self, message, nursery):
        method, params = message["method"], message["params"]
        if method == "session/request_permission":
            chosen = self.permit(params)
            if callable(getattr(chosen, "__await__", None)):
                chosen = await chosen
            if chosen is None:
                return
            result = {"outcome": chosen}
            if isinstance(chosen, str):
                options = [
                    each["optionId"] for each in params["options"] if chosen in each.values()
                ]
                result = {"outcome": {"outcome": "selected", "optionId": options[0]}}
        elif method == "elicitation/create":
            result = self.fill(params)
        elif method == "fs/read_text_file":
            text = self._read_file(params["path"])
            if text is None:
                error = {"code": -32002, "message": "not found"}
                await self._send({"id": message["id"], "error": error})
                return
            result = {"content": text}
        elif method == "fs/write_text_file":
            self.buffers.pop(params["path"], None)
            await trio.Path(params["path"]).write_text(params["content"], newline="")
            result = {}
        elif method.startswith("terminal/"):
            result = await self._answer_terminal(method, params, nursery)
        else:
            raise AssertionError(method)
        if result is None:
            return
        if "code" in result:
            await self._send({"id": message["id"], "error": result})
            return
        check(method_types()[method, "Response"], result)
        await self._send({"id": message["id"], "result": result})

    async def _answer_terminal(self, method, params, nursery):
        """Return the result of a request about a terminal, an error, or ``None`` for no answer."""
        if method == "terminal/create":
            params = self.create(params)
            if callable(getattr(params, "__await__", None)):
                params = await params
            if params is None or "code" in params or "terminalId" in params:
                return params
            terminal = await EditorTerminal.open(params)
            terminal.on_change = self._wake
            identity = f"term-{len(self.terminals) + 1}"
            self.terminals[identity] = terminal
            nursery.start_soon(terminal.run)
            self._wake()
            return {"terminalId": identity}
        terminal = self.terminals.get(params["terminalId"])
        if terminal is None or terminal.released:
            return {"code": -32602, "message": "There is no such terminal."}
        if method == "terminal/wait_for_exit":
            return await terminal.wait()
        terminal.released = method == "terminal/release"
        terminal.kill()
        self._wake()
        return {}

    def _wake(self):
        """Wake the tasks in ``wait_for``."""
        self.news.set()
        self.news = trio.Event()

    def _read_file(self, path):
        if path in self.buffers:
            return self.buffers[path]
        # Editors normalize newlines.
        return Path(path).read_text() if Path(path).is_file() else None


@asynccontextmanager
async def open_editor(cli, *arguments):
    """Start ``hilum acp`` and be its editor."""
    stdin, stdin_end = os.pipe()
    stdout_end, stdout = os.pipe()
    process = await cli.warm.open(
        ["acp", *arguments], cwd=cli.workspace, env=cli.env, stdin=stdin, stdout=stdout, stderr=2
    )
    os.close(stdin)
    os.close(stdout)
    editor = Editor(process, trio.lowlevel.FdStream(stdin_end), trio.lowlevel.FdStream(stdout_end))
    try:
        with trio.fail_after(LIMIT):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(editor.read)
                yield editor
                await editor.stdin.aclose()
                await process.wait()
    finally:
        with trio.CancelScope(shield=True):
            if process.returncode is None:
                process.kill()
            await process.wait()
            for terminal in editor.terminals.values():
                terminal.kill()
                await terminal.process.wait()
            await editor.stdin.aclose()
            await editor.stdout.aclose()
