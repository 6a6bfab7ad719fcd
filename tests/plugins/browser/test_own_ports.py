"""Which services of this machine pages reach without a question: those that commands of the session
have started.
"""

import socket
import subprocess
import sys

import hilum_browser
import hilum_guard
import hilum_shell
from hilum.testing import open_bench
from hilum_browser.gateway import Gateway
from hilum_browser.ports import find_own_ports
from hilum_browser.settings import BrowserSettings

SERVER = "import socket; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True); input()"


async def test_a_port_of_a_process_and_of_its_children_is_its_own() -> None:
    argv = ["bash", "-c", f'"{sys.executable}" -c "{SERVER}"; true']
    with subprocess.Popen(  # noqa: ASYNC220
        argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        port = int(process.stdout.readline())
        with socket.create_server(("127.0.0.1", 0)) as mine:
            assert find_own_ports([process.pid]) == {port}
            gateway = Gateway(
                BrowserSettings(hosts=["localhost:1"]), lambda: find_own_ports([process.pid])
            )
            assert not await gateway.needs_approval("127.0.0.1", port)
            assert await gateway.needs_approval("localhost", mine.getsockname()[1])
            assert not await gateway.needs_approval("localhost", 1)
            assert not await gateway.needs_approval("example.com", 80)
        process.kill()


async def test_a_service_of_the_users_is_asked_for_under_auto() -> None:
    """Where nobody can be asked, no: before a browser is started."""
    with socket.create_server(("127.0.0.1", 0)) as mine:
        async with open_bench(
            hilum_browser, hilum_guard, hilum_shell, kind="headless", approve="auto"
        ) as kit:
            url = f"http://localhost:{mine.getsockname()[1]}/"
            result = await kit.call("browser_use", action="navigate", url=url)
            assert result.code == "E_DENIED"
            assert "one of your own services" in result.text
