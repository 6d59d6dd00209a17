"""What an expression reads: known before it is evaluated.

From this the loader infers `needs`, and the scheduler loads only the fields that a condition names.
"""

from collections.abc import Iterable

import msgspec

from weft.core.expressions.nodes import Chain, Index, Member, Name, Node, children


class Reference(msgspec.Struct, frozen=True, order=True):
    """A root name and the keys written out after it, e.g. ("tasks", "build", "exitCode").

    `dynamic`: a key that is worked out comes next, so anything below the path may be read. `column` is where the
    root stands, and `key_columns` where each further key does.
    """

    path: tuple[str, ...]
    dynamic: bool
    column: int
    key_columns: tuple[int, ...]


def references_of(places: Iterable[Reference]) -> tuple[Reference, ...]:
    """Every distinct (path, dynamic), in the order of the paths; the first place of each is kept."""
    first: dict[tuple[tuple[str, ...], bool], Reference] = {}
    for reference in places:
        known = first.get((reference.path, reference.dynamic))
        if known is None or reference.column < known.column:
            first[(reference.path, reference.dynamic)] = reference
    return tuple(sorted(first.values()))


def all_references(root: Node) -> list[Reference]:
    """Every place where something is read, in the order of the source."""
    found: list[Reference] = []
    pending: list[Node] = [root]
    while pending:
        node = pending.pop()
        while isinstance(node, Member | Index | Name | Chain):
            reference, keys = _longest_path(node)
            pending.extend(keys)
            if isinstance(reference, Reference):
                found.append(reference)
                break
            node = reference
        else:
            pending.extend(children(node))
    found.sort(key=lambda reference: reference.column)
    return found


def _longest_path(node: Node) -> tuple["Reference | Node", list[Node]]:
    """The path that ends at this node, or the node below it that is no name; and the keys to look into."""
    keys: list[tuple[str, int]] = []
    inner: list[Node] = []
    dynamic = False
    while True:
        if isinstance(node, Member):
            keys.append((node.key, node.column))
            node = node.object
        elif isinstance(node, Index):
            inner.append(node.key)
            keys.clear()
            dynamic = True
            node = node.object
        elif isinstance(node, Chain):
            node = node.node
        elif isinstance(node, Name):
            keys.reverse()
            path = (node.name, *(key for key, _ in keys))
            return Reference(path, dynamic, node.column, tuple(column for _, column in keys)), inner
        else:
            return node, inner
