"""Shows the output of Git: a child process."""

from hilum import Call, Tool, ToolError, hookimpl, tool


@tool(risk="read", effect="pure", timeout=20)
async def changed_files(call: Call) -> str:
    """List the files that differ from the last commit."""
    done = await call.processes.run(["git", "status", "--short"])
    if done.returncode:
        raise ToolError(
            "Git did not report a status.",
            code="E_CMD_FAIL",
            hint=done.stderr.decode(errors="replace").strip(),
        )
    return done.stdout.decode(errors="replace") or "No files differ."


@hookimpl
def provide_tools() -> list[Tool]:
    return [changed_files]
