"""A screenshot reaches the model itself, in the request of every wire format, over real HTTP."""

import base64
from pathlib import Path

import hilum
import hilum_browser
import hilum_files
import hilum_guard
import hilum_models
import trio
from hilum.messages import AssistantMessage, Text, ToolCall
from hilum_replay import WireRequest, serve

from .conftest import SETTINGS, Site, needs_browser

pytestmark = needs_browser
APIS = {"chat": "/v1", "responses": "/v1", "anthropic": "", "gemini": "/v1beta"}


async def test_the_model_sees_the_page(site: Site, tmp_path: Path) -> None:
    """What it is sent is the very file that was saved; a model that takes no images is told so."""
    site.pages["/"] = "<title>Here</title><h1>Look</h1>"
    asked: list[bytes] = []

    def script(request: WireRequest) -> AssistantMessage | str:
        asked.append(request.body)
        if len(asked) % 2 == 0:
            return "Seen."
        shot = f"page{len(asked)}.png"
        calls = (
            ToolCall(
                f"call-{len(asked)}-a",
                "browser_use",
                f'{{"action":"navigate","url":"{site.url()}"}}',
            ),
            ToolCall(
                f"call-{len(asked)}-b", "browser_use", f'{{"action":"screenshot","path":"{shot}"}}'
            ),
        )
        return AssistantMessage((Text("I look.", "model"), *calls), stop="calls")

    async with serve(script) as server:
        settings = {
            "model": "chat/sees",
            "models.providers": {
                api: {"base_url": server.url + path, "api": api} for api, path in APIS.items()
            },
            "models.models": {f"{api}/sees": {"images": True} for api in APIS}
            | {"chat/not": {"images": False}},
            **SETTINGS,
        }
        plugins = [hilum_models, hilum_files, hilum_guard, hilum_browser]
        async with (
            hilum.open_kernel(plugins, settings=settings) as kernel,
            kernel.open_session(tmp_path, approve="auto") as session,
        ):
            for model in (*(f"{api}/sees" for api in APIS), "chat/not"):
                session.set(model=model)
                with trio.fail_after(120):
                    ended = await session.run("Look at the page.")
                assert ended.state == "completed", ended
    for number in (1, 3, 5, 7, 9):
        png = (tmp_path / f"page{number}.png").read_bytes()
        assert png.startswith(b"\x89PNG")
        assert (base64.b64encode(png) in asked[number]) == (number < 9)
    assert b"left out: not supported" in asked[9]
