"""The record of a search: enough to explain it and to run it again. Written in the background."""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from kb_pipeline.query.caller import Caller

if TYPE_CHECKING:
    from kb_pipeline.query.channels import Found
    from kb_pipeline.query.result import SearchResult

_log = logging.getLogger(__name__)


class EventLog(Protocol):
    """Where events go: the catalog."""

    def record_event(self, row: Mapping[str, Any]) -> None: ...


def event_of(
    result: "SearchResult", caller: Caller, kb_ids: Sequence[str], top_k: int, settings_hash: str, found: "Found"
) -> dict[str, Any]:
    """The row of a search; keys are the columns of `retrieval_events`."""
    return {
        "event_id": result.event_id,
        "at": datetime.now(UTC),
        "query": result.query,
        "caller_hash": caller.hash,
        "kb_ids": list(kb_ids),
        "top_k": top_k,
        "settings_hash": settings_hash,
        "detail": {
            "injected": [
                {
                    "chunk_id": hit.chunk_id,
                    "similarity": hit.similarity,
                    "ranks": dict(hit.ranks),
                    "scores": dict(hit.scores),
                }
                for hit in result.hits
            ],
            "candidates": {name: len(passages) for name, passages in found.channels.items()},
            "versions": found.versions,
            "timings": dict(result.timings),
            "notes": list(result.notes),
        },
    }


def record(pool: ThreadPoolExecutor, log: EventLog, row: Mapping[str, Any]) -> None:
    """Write the row in the background. A failure is logged: the answer is worth more than its record."""

    def write() -> None:
        try:
            log.record_event(row)
        except Exception as error:  # noqa: BLE001 - whatever the database raises must not reach a search already answered
            _log.warning("The event %s of a search was not recorded: %s", row["event_id"], error)

    pool.submit(write)
