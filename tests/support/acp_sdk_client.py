"""A client that is built with the Python SDK of the protocol; run as a script.

Usage: acp_sdk_client.py WORKSPACE. It drives a whole session of ``hilum acp``: an edit of an unsaved
buffer with permission, a command whose output it sees in its terminal while the command runs, one
that it ends in its terminal, a cancelled prompt, a kill, and a reload. It prints what it saw as
JSON.
"""

import asyncio
import json
import os
import sys
from pathlib import Path

import acp
from acp import schema


def read(path):
    return Path(path).read_text() if Path(path).is_file() else None


def write(path, content):
    Path(path).write_text(content)


class Terminal:
    """A program whose output is kept."""

    def __init__(self, process):
        self.process = process
        self.output = ""
        self.shown = asyncio.Event()
        self.is_released = False

    async def read(self, workspace):
        """Keep what the program prints, and react to it like a person who watches."""
        while data := await self.process.stdout.read(65536):
            self.output += data.decode()
            if "waits" in self.output and "ended" not in self.output:
                await self.shown.wait()
                (workspace / "seen").touch()
            if "endless" in self.output:
                await self.shown.wait()
                self.process.terminate()

    def describe(self):
        return {
            "output": self.output,
            "exit": self.process.returncode,
            "released": self.is_released,
        }


class Editor(acp.Client):
    """An editor that records what it gets and allows each call once."""

    def __init__(self, workspace):
        self.workspace = Path(workspace)
        self.terminals = {}
        self.readers = set()
        self.texts = []
        self.users = []
        self.calls = {}
        self.asked = []
        self.written = []
        self.buffers = {}
        self.waits = False
        self.was_asked = asyncio.Event()

    async def session_update(self, session_id, update, **more):
        kind = update.session_update
        if kind == "agent_message_chunk":
            self.texts.append(update.content.text)
        elif kind == "user_message_chunk":
            self.users.append(update.content.text)
        elif kind in ("tool_call", "tool_call_update"):
            call = self.calls.setdefault(update.tool_call_id, {})
            call.update(update.model_dump(exclude_none=True, include={"kind", "status", "title"}))
            for each in update.content or ():
                if each.type == "terminal":
                    self.terminals[each.terminal_id].shown.set()

    async def create_terminal(
        self, session_id, command, args=None, env=None, cwd=None, output_byte_limit=None, **more
    ):
        process = await asyncio.create_subprocess_exec(
            command,
            *(args or ()),
            env={**os.environ, **{each.name: each.value for each in env or ()}},
            cwd=cwd,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        identity = f"t{len(self.terminals)}"
        terminal = self.terminals[identity] = Terminal(process)
        self.readers.add(asyncio.ensure_future(terminal.read(self.workspace)))
        return schema.CreateTerminalResponse(terminal_id=identity)

    async def wait_for_terminal_exit(self, session_id, terminal_id, **more):
        code = await self.terminals[terminal_id].process.wait()
        if code < 0:
            return schema.WaitForTerminalExitResponse(signal=str(-code))
        return schema.WaitForTerminalExitResponse(exit_code=code)

    async def release_terminal(self, session_id, terminal_id, **more):
        terminal = self.terminals[terminal_id]
        terminal.is_released = True
        if terminal.process.returncode is None:
            terminal.process.kill()
        return schema.ReleaseTerminalResponse()

    async def request_permission(self, session_id, tool_call, options, **more):
        self.asked.append([option.name for option in options])
        self.was_asked.set()
        if self.waits:
            await asyncio.sleep(3600)
        [once] = [option for option in options if option.kind == "allow_once"]
        outcome = schema.AllowedOutcome(outcome="selected", option_id=once.option_id)
        return schema.RequestPermissionResponse(outcome=outcome)

    async def read_text_file(self, session_id, path, line=None, limit=None, **more):
        if path in self.buffers:
            return schema.ReadTextFileResponse(content=self.buffers[path])
        text = read(path)
        if text is None:
            raise acp.RequestError.resource_not_found(path)
        return schema.ReadTextFileResponse(content=text)

    async def write_text_file(self, session_id, path, content, **more):
        self.written.append(path)
        self.buffers.pop(path, None)
        write(path, content)

    def on_connect(self, conn):
        pass


def spawn(editor):
    # Without an environment, the SDK passes only a few variables on.
    return acp.spawn_agent_process(
        editor, sys.executable, "-m", "hilum", "acp", env=dict(os.environ)
    )


async def initialize(agent):
    files = schema.FileSystemCapabilities(read_text_file=True, write_text_file=True)
    abilities = schema.ClientCapabilities(fs=files, terminal=True)
    await agent.initialize(protocol_version=acp.PROTOCOL_VERSION, client_capabilities=abilities)


async def main(workspace):
    editor = Editor(workspace)
    path = str(Path(workspace) / "a.txt")
    editor.buffers[path] = "saved\ntyped\n"
    seen = {}
    async with spawn(editor) as (agent, process):
        await initialize(agent)
        session = (await agent.new_session(cwd=workspace, mcp_servers=[])).session_id
        ended = await agent.prompt(session_id=session, prompt=[acp.text_block("Edit it")])
        seen["stop"] = ended.stop_reason
        editor.waits = True
        editor.was_asked.clear()
        prompt = asyncio.ensure_future(
            agent.prompt(session_id=session, prompt=[acp.text_block("Write more")])
        )
        await editor.was_asked.wait()
        await agent.cancel(session_id=session)
        seen["cancelled"] = (await prompt).stop_reason
        seen["calls"] = list(editor.calls.values())
        seen["texts"] = "".join(editor.texts)
        seen["asked"] = editor.asked
        seen["written"] = editor.written
        seen["terminals"] = [each.describe() for each in editor.terminals.values()]
        process.kill()
        await process.wait()
    again = Editor(workspace)
    async with spawn(again) as (agent, _):
        await initialize(agent)
        listed = await agent.list_sessions(cwd=workspace)
        seen["listed"] = [each.session_id for each in listed.sessions] == [session]
        await agent.load_session(cwd=workspace, session_id=session, mcp_servers=[])
        seen["users"] = again.users
        seen["reloaded"] = list(again.calls.values())
        ended = await agent.prompt(session_id=session, prompt=[acp.text_block("Again")])
        seen["again"] = ended.stop_reason
    print(json.dumps(seen))


asyncio.run(main(sys.argv[1]))
