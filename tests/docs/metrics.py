"""docs/reference/metrics.md, made from the table in weft/api/metrics.py."""

from weft.api.metrics import METRICS

_SUFFIX = {"counter": "_total", "gauge": "", "histogram": ""}


def metrics_reference() -> str:
    lines = [
        "# Metrics", "", "<!-- Made by make docs from src/weft/api/metrics.py. -->", "",
        "`GET /metrics` of `weft serve`, in the text format of Prometheus. Where tokens are in use, a viewer's will",
        "do (`authorization: {credentials: TOKEN}` in the scrape configuration). All servers of a store say the same",
        "of it: scrape one, or aggregate with `max`. What nodes have counted comes from them every ten seconds; of",
        "nodes of one name it is the sum, and it begins anew with a node's process.", "",
        "| metric | kind | labels | meaning |", "| --- | --- | --- | --- |",
    ]  # fmt: skip
    for name, known in METRICS.items():
        labels = ", ".join(f"`{label}`" for label in known.labels)
        lines.append(f"| `{name}{_SUFFIX[known.kind]}` | {known.kind} | {labels} | {known.help} |")
    lines += [
        "",
        "Worth an alert: `weft_queue_oldest_seconds{state=\"queued\"}` that only grows (nobody takes the work),",
        "`rate(weft_lease_expirations_total[10m]) > 0` (nodes die, or are cut off), `weft_dead_letters > 0`,",
        "`absent(weft_leader)` for longer than a minute.",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"
