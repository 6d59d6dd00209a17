"""Views of rows by name: every value that a statement gives has its field."""

from typing import Any

from tests.store.conformance import make_world
from weft.store.queries import RunView, TaskView, TriggerView


def test_a_run_by_name(store: Any) -> None:
    make_world(store)
    reader = store.reader()
    (view,) = [RunView.of(row) for row in reader.read("run_shown", 3)]
    assert (view.run.no, view.run.id, view.root_id) == (3, "three", "three")
    pages = [RunView.of(row) for row in reader.read("runs_page", 2**62, None, None, 100, True)]
    assert view in pages
    reader.close()


def test_tasks_by_name(store: Any) -> None:
    make_world(store)
    reader = store.reader()
    views = [TaskView.of(row) for row in reader.read("tasks_page", 0, 2**62, None, True, 1000)]
    held = [view for view in views if view.task.session == "s1"]
    assert held
    assert all(view.node is not None and view.run_id and view.workflow for view in held)
    assert [view.task.id for view in views] == sorted(view.task.id for view in views)
    reader.close()


def test_triggers_by_name(store: Any) -> None:
    make_world(store)
    reader = store.reader()
    views = {view.trigger.id: view for view in map(TriggerView.of, reader.read("triggers_all", None))}
    assert views["w/tick"].queued == 2
    assert views["w/tick"].outcome == "queued"
    assert views["v/hook"].cause is None
    reader.close()
