"""What a node's machine has, and has left: measured now and then, sent with the renewals."""

import asyncio
import contextlib
import json
import shutil
import subprocess
from collections.abc import Callable
from typing import Any

from weft.node.ports import NodeSettings, Ports

FIRST_AFTER_S = 0.5  # a node that is gone by then spares its machine the trouble
GPU_TIMEOUT_S = 5.0


async def measure_forever(
    ports: Ports,
    settings: NodeSettings,
    publish: Callable[[str, bool], None],
    counted: Callable[[], dict[str, object]],
    again: asyncio.Event,
) -> None:
    """`publish` gets the measurement as JSON, with what the node has counted, and whether others should know it at
    once. `again`: something has changed that they should know."""
    if ports.measure is None:
        return
    await asyncio.sleep(FIRST_AFTER_S)
    urgent = True
    while True:
        try:
            again.clear()
            measured = await asyncio.to_thread(ports.measure) | counted()
            publish(json.dumps(measured, separators=(",", ":")), urgent)
        except Exception as error:  # a machine that cannot be measured can still work
            ports.log("the machine's resources could not be measured", {"error": str(error)})
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(settings.measure_every_s * (0.9 + 0.2 * ports.random.random())):
                await again.wait()
        urgent = again.is_set()


class Machine:
    """Called in a thread. Rates are per second since the call before."""

    def __init__(self, disk: str, clock: Callable[[], float]) -> None:
        self._disk = disk
        self._clock = clock
        self._before: tuple[float, dict[str, int]] | None = None

    def __call__(self) -> dict[str, Any]:
        import psutil  # takes 20 ms, which a short `weft run` should not pay

        memory, disk = psutil.virtual_memory(), shutil.disk_usage(self._disk)
        found: dict[str, Any] = {
            "cores": psutil.cpu_count() or 1, "load": round(psutil.getloadavg()[0], 2),
            "memory_total": memory.total, "memory_free": memory.available,
            "disk_total": disk.total, "disk_free": disk.free,
        }  # fmt: skip
        found |= self._rates(_counters(psutil))
        gpus = _gpus()
        if gpus:
            found["gpus"] = gpus
        return found

    def _rates(self, counted: dict[str, int]) -> dict[str, int]:
        now, before = self._clock(), self._before
        self._before = (now, counted)
        if before is None or now <= before[0]:
            return {}
        return {
            f"{name}_per_s": max(0, round((value - before[1][name]) / (now - before[0])))
            for name, value in counted.items()
            if name in before[1]
        }


def _counters(psutil: Any) -> dict[str, int]:
    """Bytes since boot. A container may see no disks, or no network."""
    counted: dict[str, int] = {}
    disk, network = psutil.disk_io_counters(), psutil.net_io_counters()
    if disk is not None:
        counted |= {"disk_read": disk.read_bytes, "disk_written": disk.write_bytes}
    if network is not None:
        counted |= {"net_received": network.bytes_recv, "net_sent": network.bytes_sent}
    return counted


def _gpus() -> list[dict[str, Any]]:
    """Name and memory in bytes of each, where the vendor's tool is there to ask."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    asked = [tool, "--query-gpu=name,memory.total,memory.free", "--format=csv,noheader,nounits"]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=GPU_TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return []
    return parse_gpus(done.stdout)


def parse_gpus(text: str) -> list[dict[str, Any]]:
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.rsplit(",", 2)]
        if len(words) == 3 and words[1].isdecimal() and words[2].isdecimal():
            sizes = {"memory_total": int(words[1]) * 2**20, "memory_free": int(words[2]) * 2**20}
            found.append({"name": words[0], **sizes})
    return found
