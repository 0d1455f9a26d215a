"""One stage at work on one source: what is left to do, batches, failures, commits. Shared by all stages."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Protocol, TypeVar

import dagster as dg
import pyarrow as pa

from kb_pipeline.errors import Bug, KbError, UnitFailure
from kb_pipeline.records import DocumentStatus
from kb_pipeline.retries import Recipe
from kb_pipeline.schemas import Table
from kb_pipeline.storage.catalog_records import SourceRow
from kb_pipeline.storage.ledger import REMOVES_OUTPUT, Entry, Lane, Needs
from kb_pipeline.storage.parquet import Dataset
from kb_pipeline.storage.store import Store, table_of
from kb_pipeline.urls import masked

T = TypeVar("T")

_READING = ("raw_items", "documents")
_UNREAD: dict[str, Any] = {
    "author": None, "published_at": None, "is_partial": False, "warnings": [], "content_hash": None,
}  # fmt: skip
"""What the catalog says of a document that nothing was read of; its title stays, to find it by."""


class Progress(Protocol):
    """Where a stage says how far it is."""

    def begin(self, stage: str, source: str, total: int | None) -> None:
        """A stage starts; `total` units where that is known."""
        ...

    def advance(self, units: int) -> None:
        """That many more units are done."""
        ...


def guarded(stage: str, name: str, work: Callable[[], T]) -> T | UnitFailure:
    """What comes of one unit's work, or why it failed: whatever the content of a unit does, it harms no other unit."""
    try:
        return work()
    except UnitFailure as failure:
        return failure
    except (KbError, OSError, MemoryError):
        raise  # the machine's trouble, not this unit's: the run stops
    except Exception as error:  # noqa: BLE001
        # An unexpected error belongs to the unit that met it: logged whole, shown as `bug`, tried again next time.
        dg.get_dagster_logger().exception(f"{stage}: {masked(name)}")
        return Bug(f"{masked(name)}: unexpected {type(error).__name__} in {stage}; see the run's log.")


@dataclass
class StageRun:
    """One stage at work on one source.

    Attributes:
        recipe: how units are done; one that was done in another way is stale.
        space: splitting or space that the output belongs to; empty for the stages before.
        is_served: whether search reads what is made here, so that documents have the status that it gives them.
        failures: (document, kind, reason) of this run.
        spaces: the spaces of the knowledge base and how far each is, where there are several.
    """

    stage: str
    recipe: Recipe
    store: Store
    source: SourceRow
    run_id: str
    progress: Progress
    space: str = ""
    is_served: bool = True
    counts: dict[str, float] = field(default_factory=dict)
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    spaces: list[dict[str, str | int]] = field(default_factory=list)

    def for_space(self, space: str, recipe: Recipe, is_served: bool) -> "StageRun":
        """The same run at work for one space; counts and failures go together."""
        return replace(self, space=space, recipe=recipe, is_served=is_served)

    @property
    def lane(self) -> Lane:
        """Where the ledger has this run's units."""
        return self.upstream(self.stage, self.space)

    def upstream(self, stage: str, space: str = "") -> Lane:
        """Where the ledger has the units of another stage."""
        return Lane(stage, self.source.kb_id, self.source.source_id, space)

    def count(self, **amounts: float) -> None:
        """Add to the counts shown as metadata."""
        for name, amount in amounts.items():
            self.counts[name] = self.counts.get(name, 0) + amount

    def needing(self, upstream: Lane) -> Needs:
        """Units of this source that this stage has to do, per the ledger."""
        needs = self.store.ledger.needing(self.lane, upstream, self.recipe)
        self.count(rows_in=len(needs.todo) + needs.unchanged, skipped=needs.unchanged)
        return needs

    def heal(
        self,
        rows: int,
        documents: Callable[[], Collection[str]],
        delete: Callable[[Sequence[str]], object],
        upstream: Lane | None = None,
    ) -> int:
        """Hold the stored rows against the ledger; what was lost is done anew, what nobody accounts for is removed.

        Args:
            rows: how many there are; where the ledger counts as many, nothing else is looked at.
            documents: the documents that have rows.
            upstream: stage whose units are about to be done here: rows of theirs are a dead run's, and of use.
        Returns: how many documents were not as the ledger says.
        """
        ledger = self.store.ledger
        _, expected = ledger.totals(self.lane)
        if rows == expected:
            return 0
        known = set(ledger.units(self.lane, with_output=True))
        there = set(documents())
        wanted = ledger.units(upstream, with_output=True) if upstream else ()
        strays, lost = sorted(there.difference(known, wanted)), sorted(known - there)
        delete(strays)
        ledger.remove(self.lane, lost)
        self.count(healed=len(strays) + len(lost))
        return len(strays) + len(lost)

    def heal_dataset(self, dataset: Dataset, upstream: Lane | None = None) -> int:
        """`heal` for a Parquet dataset, after damaged files were set aside."""
        for aside in dataset.set_aside_damaged():
            dg.get_dagster_logger().warning(f"{aside} is damaged and was set aside; its documents are made anew.")
        rows = dataset.count_rows()
        _, expected = self.store.ledger.totals(self.lane)
        if rows > expected and (copied := dataset.settle_copies()):
            rows = dataset.count_rows()
            dg.get_dagster_logger().warning(
                f"{len(copied)} documents stood in several files; one copy is left of each."
            )
        return self.heal(rows, dataset.document_ids, dataset.delete, upstream)

    def listed(self, items: Iterable[T]) -> Iterator[list[T]]:
        """Items of a listing in batches that are committed one by one; tells progress after each."""
        self.progress.begin(self.stage, self.source.partition, None)
        stream = iter(items)
        while batch := list(islice(stream, self.store.settings.batch_documents)):
            yield batch
            self.progress.advance(len(batch))

    def batches(
        self, todo: pa.StringArray, stored: Dataset, upstream: Lane
    ) -> Iterator[tuple[list[dict[str, Any]], Mapping[str, str]]]:
        """What the stage before has of some units, in batches that are committed one by one; tells progress after each.

        Yields: all rows of a batch of documents, and document -> hash of them, which is the input of its unit.
        """
        self.progress.begin(self.stage, self.source.partition, len(todo))
        for table in stored.scan(todo, batch=self.store.settings.batch_documents):
            rows = table.to_pylist()
            inputs = self.store.ledger.outputs(upstream, list(dict.fromkeys(row["document_id"] for row in rows)))
            yield rows, inputs
            self.progress.advance(len(inputs))

    def attempt(self, name: str, work: Callable[[], T]) -> T | UnitFailure:
        """Do one unit: everything that its content decides; its failure is noted and returned, and harms no other."""
        done = guarded(self.stage, name, work)
        return self.failed(name, done) if isinstance(done, UnitFailure) else done

    def failed(self, name: str, failure: UnitFailure) -> UnitFailure:
        """Note a unit's failure."""
        where = "" if self.is_served else "in the candidate space: "
        self.failures.append((masked(name), failure.kind, where + masked(str(failure))))
        self.count(**{"documents_failed" if self.is_served else "candidate_failed": 1})
        return failure

    def commit(self, dataset: Dataset, rows: Sequence[dict[str, Any]], entries: Sequence[Entry]) -> set[str]:
        """Replace the entries' documents in the dataset, then write the ledger: data first, ledger last.

        Returns: the documents that are in; rows that their table cannot take are their document's failure.
        """
        table = guarded(self.stage, dataset.table.name, lambda: table_of(dataset.table, list(rows)))
        if isinstance(table, UnitFailure):
            entries = [self._storable(dataset.table, rows, entry) for entry in entries]
            failed = {entry.unit for entry in entries if entry.failure}
            table = table_of(dataset.table, [row for row in rows if row["document_id"] not in failed])
        replaced = [entry.unit for entry in entries if entry.failure is None or entry.failure.kind in REMOVES_OUTPUT]
        self.store.ledger.reopen(self.lane, replaced)
        dataset.replace(table, replaced)
        self.count(written=table.num_rows)
        self.record(entries)
        return {entry.unit for entry in entries if not entry.failure}

    def _storable(self, table: Table, rows: Sequence[dict[str, Any]], entry: Entry) -> Entry:
        """The entry, failed where the table does not take its document's rows."""
        mine = [row for row in rows if row["document_id"] == entry.unit]
        made = self.attempt(mine[0]["external_id"] if mine else entry.unit, lambda: table_of(table, mine))
        if isinstance(made, UnitFailure):
            return Entry(unit=entry.unit, input_hash=entry.input_hash, failure=made)
        return entry

    def record(self, entries: Sequence[Entry]) -> None:
        """Write the ledger; failed documents get their reason in the catalog first. Without money they only wait."""
        if self.is_served:
            self._record_failures(entries)
        self.store.ledger.record(self.lane, self.recipe, self.run_id, entries)

    def _record_failures(self, entries: Sequence[Entry]) -> None:
        self.store.documents.update(
            {
                "document_id": entry.unit,
                "status": "pending" if entry.failure.kind == "budget" else "failed",
                "error_kind": entry.failure.kind,
                "error": str(entry.failure),
                "run_id": self.run_id,
            }
            for entry in entries
            if entry.failure
        )
        left = {"chunks": 0} | (_UNREAD if self.stage in _READING else {})
        self.store.documents.update(
            {"document_id": entry.unit, **left}
            for entry in entries
            if entry.failure and entry.failure.kind in REMOVES_OUTPUT
        )

    def retire(self, removed: Sequence[str], delete: Callable[[Sequence[str]], object]) -> None:
        """Remove the output of units whose input is gone."""
        if removed:
            with self.store.ledger.removing(self.lane, removed):
                delete(removed)
            self.count(removed=len(removed))

    def set_status(self, document_ids: Sequence[str], status: DocumentStatus) -> None:
        """Move documents on to the next status, where search will read what was made."""
        if self.is_served:
            self.store.documents.set_status(document_ids, status, self.run_id)
