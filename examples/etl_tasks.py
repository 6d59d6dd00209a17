"""The functions of etl.yaml. They know nothing of Weft: call them, test them, use them elsewhere."""

import csv
import shutil
import tempfile
from pathlib import Path

RATES = {"EUR": 1.0, "USD": 0.5, "GBP": 2.0}
ORDERS = {"north": [("USD", 10), ("EUR", 4)], "south": [("GBP", 3)], "west": [("EUR", 1), ("EUR", 2), ("USD", 6)]}


def extract(day: str) -> dict[str, object]:
    """Writes one file per region, as a database export would."""
    directory = Path(tempfile.mkdtemp(prefix=f"orders-{day}-"))
    for region, orders in ORDERS.items():
        with (directory / f"{region}.csv").open("w", newline="") as file:
            csv.writer(file).writerows(orders)
    return {"directory": str(directory), "files": sorted(str(path) for path in directory.glob("*.csv"))}


def transform(path: str, currency: str) -> dict[str, object]:
    with open(path, newline="") as file:
        total = sum(int(amount) * RATES[given] / RATES[currency] for given, amount in csv.reader(file))
    return {"region": Path(path).stem, "total": total}


async def load(day: str, parts: list[dict[str, float]]) -> dict[str, object]:
    """Async functions are tasks as well."""
    return {"day": day, "regions": len(parts), "total": sum(part["total"] for part in parts)}


def clean(directory: str) -> None:
    shutil.rmtree(directory)
