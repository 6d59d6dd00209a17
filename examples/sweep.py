"""A sweep over parameters, and a clean-up that runs whatever happens.

It prints: {'best': {'rate': 0.1, 'loss': 0.01}, 'tried': 4}
"""

from typing import Any

from weft import flow, shell, task


@task
async def train(setting: dict[str, float], seed: int) -> dict[str, float]:
    """Async functions run side by side in one process."""
    return {"rate": setting["rate"], "loss": round((setting["rate"] - 0.2) ** 2 + seed / 1000, 4)}


@task
def choose(tries: list[dict[str, float]]) -> dict[str, Any]:
    good = [one for one in tries if one is not None]
    return {"best": min(good, key=lambda one: (one["loss"], one["rate"])), "tried": len(tries)}


@flow(on_failure="continue")
def sweep(seed: int = 0) -> dict[str, Any]:
    """Tries a few learning rates and keeps the best."""
    settings = [{"rate": rate} for rate in (0.05, 0.1, 0.3, 0.5)]
    tries = train.options(tolerate="50%", max_parallel=2).map(settings, seed=seed)
    best = choose(tries)
    shell("rm -rf scratch", when="always", needs=[best], name="clean_up")
    return best


if __name__ == "__main__":
    print(sweep.run())
