"""Layered TOML settings in typed classes: every mistake reported at once, every value with its
source.

Weakest to strongest: defaults, the user's file, the project's file, environment, command line.
Tables merge key by key, lists replace. Settings are declared as classes, one for each table::

    @section("shell")
    class ShellSettings:
        timeout: float = setting(default=120.0, minimum=0, help="Seconds a command may take.")

    settings = App("hilum").load([ShellSettings]).get(ShellSettings)

It is then ``[shell] timeout = 5`` in a file, ``HILUM_SHELL_TIMEOUT=5`` in the environment and
``shell.timeout=5`` on the command line. Names are loaded at first use: who only declares settings
loads no reader.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from hilum_settings.app import App, Explained, Settings
    from hilum_settings.declare import Info, members, section, sections_of, setting
    from hilum_settings.edit import alone, change
    from hilum_settings.errors import ChangeError, DeclarationError, SettingsError
    from hilum_settings.sources import FILE, Raw
else:
    _HOMES = {
        "app": ("App", "Explained", "Settings"),
        "declare": ("Info", "members", "section", "sections_of", "setting"),
        "edit": ("alone", "change"),
        "errors": ("ChangeError", "DeclarationError", "SettingsError"),
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
    "App",
    "ChangeError",
    "DeclarationError",
    "Explained",
    "Info",
    "Raw",
    "Settings",
    "SettingsError",
    "alone",
    "change",
    "members",
    "section",
    "sections_of",
    "setting",
]
