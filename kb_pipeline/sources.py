"""Adding a source to a knowledge base: which connector takes the input, and how often it is synced."""

import re
from collections.abc import Mapping
from typing import Any

from kb_pipeline.connectors.globs import fault_of
from kb_pipeline.connectors.registry import Registry
from kb_pipeline.errors import UsageError
from kb_pipeline.storage.catalog import Catalog
from kb_pipeline.storage.catalog_records import SourceRow

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_LEAST_INTERVAL_S = 30
_LONGEST_INTERVAL_S = 366 * 86_400


def parse_schedule(text: str | None) -> tuple[int | None, str | None]:
    """`--every` as (seconds, cron); one of them, or neither for no schedule.

    Raises: UsageError: neither an interval (`15m`, `1h`, `1d`) nor a cron expression of five fields; never due.
    """
    if not text or text == "never":
        return None, None
    if match := re.fullmatch(r"(\d+)\s*([smhdw])", text.strip()):
        seconds = int(match[1][-10:]) * _UNITS[match[2]]
        if len(match[1].lstrip("0")) > 10 or seconds > _LONGEST_INTERVAL_S:
            raise UsageError(f"--every {text[:40]} is longer than a year (366d), the longest interval there is.")
        if seconds < _LEAST_INTERVAL_S:
            raise UsageError(
                f"--every {text} is shorter than {_LEAST_INTERVAL_S}s, the least interval a source can have."
            )
        return seconds, None
    from croniter import CroniterBadDateError, croniter

    if len(text.split()) == 5 and croniter.is_valid(text):
        try:
            croniter(text).get_next()
        except CroniterBadDateError:
            raise UsageError(f"--every {text!r} names a day that no calendar has: it is never due.") from None
        return None, text
    raise UsageError(f"--every {text!r} is neither an interval (15m, 1h, 1d) nor a cron expression ('0 6 * * *').")


def check_options(options: Mapping[str, Any]) -> None:
    """Raises: UsageError: an option that no connector has, or a value that is not a list of globs."""
    for name, value in options.items():
        if name not in ("include", "exclude"):
            raise UsageError(f"Source option {name!r} is unknown; there are include and exclude.")
        if not isinstance(value, list | tuple) or not all(isinstance(glob, str) and glob for glob in value):
            raise UsageError(f"Source option {name} takes a list of globs, not {value!r}.")
        for glob in value:
            if fault := fault_of(glob):
                raise UsageError(f"Source option {name}: the glob {glob!r} {fault}.")


def add_source(
    catalog: Catalog,
    registry: Registry,
    kb: str,
    source_input: str,
    *,
    source_type: str | None = None,
    name: str | None = None,
    every: str | None = None,
    options: Mapping[str, Any] | None = None,
    is_whole: bool = False,
) -> SourceRow:
    """Register an input with the connector that takes it; the same input again keeps its identity.

    Args:
        every: as `parse_schedule` takes it; None leaves a known source's schedule as it is.
        options: those to set; an empty list takes one away, and those not named stay as they are.
        is_whole: what is not given is not to be: nothing of a known source stays.
    Raises: UsageError: unknown source type or input, or a bad schedule; NotVisible: no such knowledge base.
    """
    schedule = None if every is None else parse_schedule(every)
    check_options(options or {})
    connector = registry.pick(source_input, source_type)
    kb_id, canonical = catalog.knowledge_base(kb).kb_id, connector.canonical(source_input)
    return catalog.add_source(
        kb_id,
        connector.name,
        canonical,
        name=name,
        options=options,
        schedule=schedule,
        keeps_the_rest=not is_whole,
        ids_are_global=connector.has_global_ids,
    )
