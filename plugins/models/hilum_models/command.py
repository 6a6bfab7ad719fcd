"""``hilum models``: which models can be used, what they cost, and what is missing."""

from __future__ import annotations

import getpass
import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from hilum import HilumError, UsageError, open_kernel
from hilum.command import Parser, check_folder, check_text, say, say_json
from hilum.errors import E_BAD_ARGS, EXITS, ModelError
from hilum.store import MemoryStore

if TYPE_CHECKING:
    from hilum import Kernel, ModelTest, ProviderStatus
    from hilum.models import ModelInfo, Price

    from hilum_models import Gateways

ABOUT = """\
List the models that hilum can use, with context window, price (US dollars per
million tokens of input and output), and what is missing where one cannot be used.
"""
EPILOG = """\
  hilum models                  what is set up; contacts only servers on this machine
  hilum models openai           request the provider's own list
  hilum models test             send one small request to the default model
  hilum models test openai/gpt-5
  hilum models key openai       keep a key: in the system's keyring, or in a file
                                that only you can read; reads it from the terminal
                                or from standard input
  hilum models key openai --forget

A key in an environment variable comes first. Keys are never shown.
"""
NO_MODEL = """\
There is no model to work with. Set one of these keys, start one of these servers, or use any
server that speaks a known format: export OPENAI_BASE_URL=…, and --model openai/NAME.
hilum demo shows hilum at work without a model."""
_ACTIONS = ("list", "test", "key")
# Maximum number of models to show for each provider; the option --all shows the rest.
MAX_LISTED = 30


def main(argv: list[str]) -> int:
    """List models with price and context window, and test whether they can be reached.

    Returns:
        The exit code: 4 if the tested model did not answer.
    """
    import trio

    check_text(argv)
    try:
        options = _parse(argv)
    except SystemExit as error:  # --help
        return int(error.code or 0)
    action = {"test": _test, "key": _key}.get(options.action, _list)
    return trio.run(action, options)


def _parse(argv: Sequence[str]) -> Namespace:
    """Read the command line.

    Raises:
        UsageError: The command line is invalid.
    """
    parser = Parser("hilum models", ABOUT, EPILOG)
    add = parser.add_argument
    add(
        "words",
        nargs="*",
        metavar="PROVIDER | test [NAME] | key PROVIDER",
        help="a provider whose list is requested; a model to test; a key to keep",
    )
    add("--all", action="store_true", help="show all models of a provider")
    add("--forget", action="store_true", help="with key: remove the key that is kept")
    add("--json", action="store_true", help="print JSON")
    add("--workspace", "-C", default=".", metavar="DIR", help="folder whose settings apply")
    options = parser.parse_intermixed_args(argv)
    options.workspace = check_folder(options.workspace)
    words = list(options.words)
    options.action = words.pop(0) if words and words[0] in _ACTIONS else "list"
    if len(words) > 1:
        hint = "hilum models --help shows what it takes."
        raise UsageError(f"There is one word too many: {words[1]}.", code=E_BAD_ARGS, hint=hint)
    options.name = words[0] if words else ""
    if options.action == "key" and not options.name:
        hint = "Name a provider: hilum models key openai."
        raise UsageError("It is unclear which provider the key is for.", code=E_BAD_ARGS, hint=hint)
    if options.forget and options.action != "key":
        raise UsageError("--forget belongs to hilum models key.", code=E_BAD_ARGS)
    # Typing `hilum models openai/gpt-5` is a natural mistake.
    if options.action == "list" and "/" in options.name:
        hint = f"hilum models test {options.name} tests a model."
        raise UsageError(f"{options.name!r} is not a provider.", code=E_BAD_ARGS, hint=hint)
    return options


def _find_gateways(kernel: Kernel) -> Gateways:
    """Return the connections of a kernel.

    Raises:
        UsageError: The settings disable the plugin.
    """
    from hilum_models import Gateways

    found = kernel.plugin(Gateways)
    if found is None:
        hint = "`hilum plugins` shows why."
        raise UsageError("The plugin `models` is not loaded.", hint=hint)
    return found


# --- list -----------------------------------------------------------------------------------------


async def _list(options: Namespace) -> int:
    async with open_kernel(workspace=options.workspace, store=MemoryStore()) as kernel:
        found = await _find_gateways(kernel).survey_models(kernel, options.name)
        default = kernel.router.resolve("default")
        chosen = not default and not options.name
        if chosen:
            # Choose the model that `hilum run` would choose; servers on other machines are not
            # contacted.
            default = _find_default(found)
    if options.json:
        say_json({"default": default, "providers": [_provider_data(each) for each in found]})
        return 0
    most = sys.maxsize if options.all else MAX_LISTED
    say("\n".join(_format(found, default, most, chosen=chosen, named=bool(options.name))))
    return 0


def _find_default(found: Iterable[ProviderStatus]) -> str:
    for each in found:
        if each.usable and each.models:
            return each.models[0].name
    return ""


def _provider_data(status: ProviderStatus) -> dict[str, Any]:
    data = msgspec.to_builtins(status)
    assert isinstance(data, dict)
    return data


def _format(
    found: Sequence[ProviderStatus], default: str, most: int, *, chosen: bool, named: bool
) -> Iterator[str]:
    """Yield the lines of the list.

    Args:
        found: The providers.
        default: The default model.
        most: Maximum number of models to list for one provider.
        chosen: Whether hilum chose the default model because none is set.
        named: Whether the user named the provider.
    """
    usable = [each for each in found if each.usable]
    rows: list[tuple[str, ...]] = []
    for each in usable:
        for info in each.models[:most]:
            mark = "*" if info.name == default else " "
            row = (f"{mark} {info.name}", _format_window(info.window), _format_price(each, info))
            rows.append((*row, _describe_access(each)))
        left = len(each.models) - most
        if left > 0:
            rows.append((f"  … {left} more of {each.name}: --all", "", "", ""))
        # A provider from another plugin, such as one for recordings, might not list its models.
        if not each.models and (each.address or named):
            rows.append((f"  {each.name}/…", "", "", _describe_access(each)))
    if rows:
        yield from _table([("  MODEL", "WINDOW", "PRICE", "ACCESS"), *rows])
    missing = [each for each in found if not each.usable]
    if missing:
        if rows:
            yield ""
        yield "Not available:"
        width = max(len(each.name) for each in missing)
        for each in missing:
            hint = f" {each.hint}" if each.hint else ""
            yield f"  {each.name:{width}}  {each.message}.{hint}"
    if default and not named:
        yield ""
        unusable = [each for each in missing if default.startswith(f"{each.name}/")]
        if unusable:
            yield f"The default model {default} cannot be used: {unusable[0].message}."
        elif chosen:
            yield f"* No model is set, so {default} is used. To choose another one: --model, or"
            yield '  model = "provider/name" in your settings.toml.'
        else:
            yield "* the default model"
    elif not rows and not named:
        yield ""
        yield NO_MODEL


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = []
    for column in range(3):
        widths.append(max(len(row[column]) for row in rows))
    for name, window, price, access in rows:
        line = f"{name:{widths[0]}}  {window:>{widths[1]}}  {price:>{widths[2]}}  {access}"
        yield line.rstrip()


def _describe_access(status: ProviderStatus) -> str:
    if status.state == "ready":
        return status.message
    return f"{status.message} (not contacted)" if status.address else status.message


def _format_window(tokens: int) -> str:
    if tokens >= 1_000_000:
        return f"{tokens / 1e6:.3g}M"
    return f"{tokens // 1000}k"


def _format_price(status: ProviderStatus, info: ModelInfo) -> str:
    price: Price | None = info.price
    if price is not None:
        return f"${price.input:g} / ${price.output:g}"
    return "free" if status.local else "unknown"


# --- test -----------------------------------------------------------------------------------------


async def _test(options: Namespace) -> int:
    async with open_kernel(workspace=options.workspace, store=MemoryStore()) as kernel:
        try:
            done = await _find_gateways(kernel).test_model(kernel, options.name)
        except HilumError as error:
            if not options.json:
                raise
            say_json(_error_data(error, options.name))
            return EXITS.get(error.code, 1)
    if options.json:
        say_json({"ok": True, **msgspec.to_builtins(done)})
    else:
        say(_describe_test(done))
    return 0


def _describe_test(done: ModelTest) -> str:
    place = f" at {done.address}" if done.address else ""
    return f"{done.model}{place} answers: the first words came after {done.seconds:.1f} s."


def _error_data(error: HilumError, name: str) -> dict[str, Any]:
    data = {"ok": False, "model": name, "code": error.code}
    data |= {"message": error.message, "hint": error.hint}
    if isinstance(error, ModelError):
        data |= {"kind": error.kind, "status": error.status}
    return data


# --- keys -----------------------------------------------------------------------------------------


async def _key(options: Namespace) -> int:
    provider = options.name
    async with open_kernel(workspace=options.workspace, store=MemoryStore()) as kernel:
        gateways = _find_gateways(kernel)
        if options.forget:
            was_kept = await gateways.forget_key(kernel, provider)
            if was_kept:
                say(f"The key for {provider} is removed.")
            else:
                say(f"hilum keeps no key for {provider}.")
            return 0
        # Check that the provider exists before the user types a key for it.
        (status,) = await gateways.survey_models(kernel, provider, known_only=True)
        place = await gateways.store_key(kernel, provider, _read_key(provider))
    say(f"The key for {provider} is kept in {place}. hilum models {provider} checks it.")
    if status.key_env and os.environ.get(status.key_env):
        say(f"{status.key_env} is set and comes first.")
    return 0


def _read_key(provider: str) -> str:
    """Read a key from the terminal, without showing it, or from standard input."""
    if sys.stdin.isatty():
        try:
            return getpass.getpass(f"Key for {provider} (it is not shown): ")
        except EOFError:
            raise UsageError("No key was entered.", code=E_BAD_ARGS) from None
    # A key is ASCII text; other input is rejected later, with a better message than the decoder's.
    return sys.stdin.buffer.readline(10_000).decode("utf-8", "replace")
