"""Checks cron expressions and time zones of a definition, which needs the zone database."""

from typing import Any

from weft.core.definition.problems import ValueProblem
from weft.triggers.cron import Cron, zone_of
from weft.triggers.protocol import BadTrigger


def check_times(document: dict[str, Any]) -> list[ValueProblem]:
    out: list[ValueProblem] = []
    for at, trigger in enumerate(document.get("triggers", ())):
        if "cron" not in trigger:
            continue
        zone = trigger.get("timezone", "UTC")
        try:
            zone_of(zone)
        except BadTrigger as error:
            out.append(ValueProblem(("triggers", at, "timezone"), error.message, error.fix))
            zone = "UTC"
        try:
            Cron(trigger["cron"], zone)
        except BadTrigger as error:
            out.append(ValueProblem(("triggers", at, "cron"), error.message, error.fix))
    return out
