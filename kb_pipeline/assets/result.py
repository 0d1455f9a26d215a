"""What Dagster shows of a stage: metadata and check results, summed over the sources of a run."""

from collections.abc import Callable, Mapping, Sequence

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.stage import StageRun
from kb_pipeline.schemas import Table

CHECKS: dict[str, str] = {
    "schema_matches": "Everything stored has the schema of kb_pipeline.schemas.",
    "keys_are_unique": "No key occurs twice.",
    "ledger_matches_rows": "The ledger counts exactly the rows that are there.",
    "indexes_cover_rows": "Full-text, scalar and vector indexes cover every row.",
    "no_removal_waits": "No document waits for a second listing, or a person, to agree that it left the source.",
    "no_document_failed": "Every document got through this stage; the failed ones are listed with their reasons.",
    "no_source_failed": "Every source of the run could be worked on.",
}
_WARNINGS = frozenset({"no_document_failed", "no_removal_waits"})
_SHOWN = 50
_COUNTS = ("rows_in", "written", "skipped", "removed", "documents_failed", "tokens")
_AMOUNTS = ("cost_usd", "seconds")

Check = tuple[str, bool, str]
"""(check name, passed, what was found)."""


def metadata_of(runs: Sequence[StageRun]) -> dict[str, dg.MetadataValue]:
    """Counts, time, cost and sizes, and the failures as a table."""
    totals = dict.fromkeys((*_COUNTS, *_AMOUNTS, "rows"), 0.0)
    for run in runs:
        for name, amount in run.counts.items():
            totals[name] = totals.get(name, 0.0) + amount
    shown: dict[str, dg.MetadataValue] = {"dagster/row_count": dg.MetadataValue.int(int(totals.pop("rows")))}
    for name, amount in totals.items():
        is_amount = name in _AMOUNTS
        shown[name] = dg.MetadataValue.float(round(amount, 4)) if is_amount else dg.MetadataValue.int(int(amount))
    failures = [failure for run in runs for failure in run.failures][:_SHOWN]
    if failures:
        rows = [dg.TableRecord({"document": name, "kind": kind, "reason": reason}) for name, kind, reason in failures]
        shown["failures"] = dg.MetadataValue.table(rows)
    if spaces := [space for run in runs for space in run.spaces][:_SHOWN]:
        shown["spaces"] = dg.MetadataValue.table([dg.TableRecord(space) for space in spaces])
    return shown


def result_of(
    runs: Sequence[StageRun], found: Sequence[list[Check]], broken: Mapping[str, Exception]
) -> dg.MaterializeResult:
    """The step's result: a check passes if it passes for every source."""
    merged: dict[str, list[Check]] = {}
    for run, checks in zip(runs, found, strict=True):
        for check in (*checks, _documents_check(run)):
            merged.setdefault(check[0], []).append(check)
    reasons = "; ".join(f"{key}: {failure}" for key, failure in broken.items())
    merged["no_source_failed"] = [("no_source_failed", not broken, reasons)]
    versions = [run.store.ledger.data_version(run.lane) for run in runs]
    metadata = metadata_of(runs)
    if len(runs) + len(broken) > 1:  # each partition has metadata of its own, which the run's must not fill up
        metadata = {f"run/{name}": value for name, value in metadata.items()}
    return dg.MaterializeResult(
        metadata=metadata,
        check_results=[_check_result(name, checks) for name, checks in merged.items()],
        data_version=dg.DataVersion(versions[0] if len(versions) == 1 else ids.sha256_hex(*versions)),
    )


def _documents_check(run: StageRun) -> Check:
    standing = run.store.ledger.failures(run.lane)
    reasons = "; ".join(reason for _, _, reason in standing[:5])
    return "no_document_failed", not standing, f"{len(standing)} failed: {reasons}" if standing else ""


def _check_result(name: str, checks: Sequence[Check]) -> dg.AssetCheckResult:
    told = [text for _, passed, text in checks if text and (not passed or len(checks) == 1)]
    return dg.AssetCheckResult(
        check_name=name,
        passed=all(passed for _, passed, _ in checks),
        severity=dg.AssetCheckSeverity.WARN if name in _WARNINGS else dg.AssetCheckSeverity.ERROR,
        description=" | ".join(told[:_SHOWN]) or None,
    )


def inspect_dataset(table: Table) -> Callable[[StageRun], list[Check]]:
    """The checks of a Parquet stage."""

    def inspect(run: StageRun) -> list[Check]:
        dataset = run.store.dataset(table, run.source, run.space)
        report = dataset.inspect()
        run.count(rows=report.rows, size_bytes=dataset.size_bytes())
        _, expected = run.store.ledger.totals(run.lane)
        return [
            ("schema_matches", not report.foreign_parts, ", ".join(report.foreign_parts)),
            ("keys_are_unique", report.rows == report.keys, f"{report.rows} rows, {report.keys} keys"),
            ("ledger_matches_rows", report.rows == expected, f"{report.rows} rows, {expected} in the ledger"),
        ]

    return inspect
