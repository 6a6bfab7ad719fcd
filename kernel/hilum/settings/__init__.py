"""Layered TOML settings in typed classes.

All mistakes are reported together, and the source of every value is known.

From weakest to strongest, the sources are defaults, the user's file, the project's file,
environment and command line. Tables are merged key by key; a list replaces the weaker source's
list. Settings are declared as classes, one per table::

    @section("shell")
    class ShellSettings:
        timeout: float = setting(default=120.0, minimum=0, help="Seconds a command may take.")

    settings = load([ShellSettings]).get(ShellSettings)

This setting is then ``[shell] timeout = 5`` in a file, ``HILUM_SHELL_TIMEOUT=5`` in the environment
and ``shell.timeout=5`` on the command line. Names are imported on first use, so that code that only
declares settings does not import the reader.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilum.settings.app import App, Explained, Settings
    from hilum.settings.declare import Info, members, section, sections_of, setting
    from hilum.settings.edit import change
    from hilum.settings.errors import ChangeError, explain_invalid_toml
    from hilum.settings.folder_lock import lock_folder
    from hilum.settings.kernel_settings import (
        KINDS,
        Approve,
        KernelSettings,
        PluginSettings,
        SessionKind,
    )
    from hilum.settings.locations import (
        cache_folder,
        config_folder,
        data_folder,
        environment,
        home_folder,
        load,
        parse_pair,
        use_environment,
    )
    from hilum.settings.sources import FILE, Raw
else:
    _HOMES = {
        "app": ("App", "Explained", "Settings"),
        "declare": ("Info", "members", "section", "sections_of", "setting"),
        "edit": ("change",),
        "errors": ("ChangeError", "explain_invalid_toml"),
        "folder_lock": ("lock_folder",),
        "kernel_settings": ("KINDS", "Approve", "KernelSettings", "PluginSettings", "SessionKind"),
        "locations": (
            "cache_folder",
            "config_folder",
            "data_folder",
            "environment",
            "home_folder",
            "load",
            "lock_folder",
            "parse_pair",
            "use_environment",
        ),
        "sources": ("FILE", "Raw"),
    }

    def __getattr__(name: str) -> object:
        from importlib import import_module

        for module, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
                return value
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "FILE",
    "KINDS",
    "App",
    "Approve",
    "ChangeError",
    "Explained",
    "Info",
    "KernelSettings",
    "PluginSettings",
    "Raw",
    "SessionKind",
    "Settings",
    "cache_folder",
    "change",
    "config_folder",
    "data_folder",
    "environment",
    "explain_invalid_toml",
    "home_folder",
    "load",
    "lock_folder",
    "members",
    "parse_pair",
    "section",
    "sections_of",
    "setting",
    "use_environment",
]
