"""Definitions as people write them: loads YAML and JSON files, and reports the position of every error.

Names are imported on first use: every process that runs a Python task imports this package, too.
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from weft.authoring.errors import DefinitionErrors, LocatedError
    from weft.authoring.load import Loaded, load_file, load_text, load_value

__all__ = ["DefinitionErrors", "Loaded", "LocatedError", "load_file", "load_text", "load_value"]


if not TYPE_CHECKING:  # a type checker knows only the names above

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        home = "errors" if name in ("DefinitionErrors", "LocatedError") else "load"
        return getattr(import_module(f"weft.authoring.{home}"), name)
