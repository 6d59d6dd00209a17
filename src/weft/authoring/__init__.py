"""Definitions as people write them: YAML and JSON files are loaded here, with the place of every mistake."""

from weft.authoring.errors import DefinitionErrors, LocatedError
from weft.authoring.load import Loaded, load_file, load_text, load_value

__all__ = ["DefinitionErrors", "Loaded", "LocatedError", "load_file", "load_text", "load_value"]
