"""What 1,000 agents of one kernel cost while they wait for a slow model.

Run: ``python tests/benchmarks/agents.py``.

Once as 1,000 agents of one session, once as 1,000 sessions with one agent each; all plugins, the
durable store, real connections.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from typing import IO

COUNT, SECONDS = 1000, 10.0
HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def rss() -> float:
    """Resident memory of this process in MB, as it is now."""
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / 1e6


async def slow_server() -> None:
    """Take requests, begin an answer, and say no more.

    Print the port, then the number of requests held.
    """
    import trio

    held = 0

    async def hold(stream: trio.SocketStream) -> None:
        nonlocal held
        seen = b""
        while b"\r\n\r\n" not in seen:
            seen += await stream.receive_some(1 << 16)
        head, _, body = seen.partition(b"\r\n\r\n")
        length = int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0])
        while len(body) < length:
            body += await stream.receive_some(1 << 16)
        await stream.send_all(HEAD)
        held += 1
        print(held, flush=True)
        await stream.receive_some(1)

    async def serve(task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1", backlog=COUNT)
        print(listener.socket.getsockname()[1], flush=True)
        task_status.started()
        await trio.serve_listeners(hold, [listener])

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        await trio.to_thread.run_sync(sys.stdin.read)
        nursery.cancel_scope.cancel()


def wait_for(server: IO[str], count: int) -> None:
    """Wait until the server holds so many requests; blocks."""
    while int(server.readline()) < count:
        pass


async def measure(which: str, server: IO[str], count: int) -> dict[str, float]:
    """Open the agents and measure this process while they wait."""
    import hilum
    import trio

    settings = {"model": "openai/m", "approve": "auto", "silence": 3600.0}
    async with AsyncExitStack() as stack:
        kernel = await stack.enter_async_context(hilum.open_kernel(settings=settings))
        empty, began = rss(), time.perf_counter()
        sessions = []
        if which == "agents":
            session = await stack.enter_async_context(kernel.open_session("."))
            sessions.append(session)
            for number in range(count):
                session.add_agent(hilum.Profile(name=f"worker-{number}"))
                await session.prompt("Wait.", agent=f"worker-{number}")
        else:
            for _ in range(count):
                session = await stack.enter_async_context(kernel.open_session("."))
                sessions.append(session)
                await session.prompt("Wait.")
        with trio.fail_after(120):
            await trio.to_thread.run_sync(wait_for, server, count)
        started = time.perf_counter() - began
        await trio.sleep(1.0)
        memory, cpu, began = rss(), time.process_time(), time.perf_counter()
        await trio.sleep(SECONDS)
        share = (time.process_time() - cpu) / (time.perf_counter() - began)
        began = time.perf_counter()
        for session in sessions:
            session.stop()
        busy = [agent for session in sessions for agent in session.agents.values()]
        while any(agent.conversation.run for agent in busy):  # noqa: ASYNC110
            await trio.sleep(0.01)
        stopped = time.perf_counter() - began
    return {"rss": memory, "empty": empty, "cpu": share * 100, "start": started, "stop": stopped}


def child(which: str, count: int) -> None:
    """Measure in this process and print the figures."""
    import trio

    argv = [sys.executable, "-u", __file__, "--server"]
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server,
    ):
        assert server.stdin
        assert server.stdout
        url = f"http://127.0.0.1:{server.stdout.readline().strip()}/v1"
        own = f"{folder}/own"
        os.environ |= {
            "OPENAI_BASE_URL": url,
            "OPENAI_API_KEY": "none",
            "HILUM_DATA": own,
            "HILUM_CONFIG": own,
        }
        os.chdir(folder)
        print(json.dumps(trio.run(measure, which, server.stdout, count)))
        server.stdin.close()


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--child", nargs=2)
    parser.add_argument("--server", action="store_true")
    parser.add_argument("--count", type=int, default=COUNT)
    options = parser.parse_args()
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if options.server:
        import trio

        return trio.run(slow_server)
    if options.child:
        return child(options.child[0], int(options.child[1]))
    print(
        f"{options.count} waiting as        RSS MB   (before)   CPU %   all waiting after s   stopped after s   bar"
    )
    for which in ("agents", "sessions"):
        argv = [sys.executable, __file__, "--child", which, str(options.count)]
        found = json.loads(subprocess.run(argv, stdout=subprocess.PIPE, check=True).stdout)
        figures = f"{found['rss']:8.0f}{found['empty']:11.0f}{found['cpu']:8.2f}{found['start']:22.1f}{found['stop']:18.2f}"
        print(f"{which:22}{figures}   300 MB, 5 %", flush=True)
    return None


if __name__ == "__main__":
    main()
