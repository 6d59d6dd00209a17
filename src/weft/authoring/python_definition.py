"""A definition written in Python, as the loader sees it: an object with `load`.

Flows of the SDK are such objects. The loader knows no more about them: the SDK is an edge, and imports the loader.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from weft.authoring.load import Loaded


#: Modules that were loaded by their path: name -> file. Kept by flow_files.
LOADED_FILES: dict[str, str] = {}


class PythonDefinition:
    """A definition that is an object of a Python module; `file.py:name` and `module:name` find it."""

    def load(self) -> "Loaded":
        """The definition, ready to run. Raises DefinitionErrors."""
        raise NotImplementedError
