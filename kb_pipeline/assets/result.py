"""Runs a stage over the partitions of a Dagster step and says what it did: metadata, checks, failure."""

import time
from collections.abc import Callable, Sequence

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.errors import NotVisible, SystemicError, UnitFailure
from kb_pipeline.schemas import Table
from kb_pipeline.storage.parquet import Dataset
from kb_pipeline.storage.store import Store

_FAILURES_SHOWN = 50
RETRY = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""For crashes of the machinery (a locked database); a failed listing or document is not retried within the step."""

CHECKS: dict[str, str] = {
    "schema_matches": "Every part file has the schema of kb_pipeline.schemas.",
    "keys_are_unique": "No key occurs twice.",
    "ledger_matches_rows": "The ledger counts exactly the rows that are there.",
    "no_document_failed": "Every document got through this stage; the failed ones are listed with kind and reason.",
}


def check_specs(asset: str, *more: str) -> list[dg.AssetCheckSpec]:
    """The checks every stage reports, and the stage's own."""
    return [dg.AssetCheckSpec(name, asset=asset, description=CHECKS.get(name)) for name in (*CHECKS, *more)]


Check = tuple[str, bool, str]
"""(check name, passed, what was found)."""


def run_partitions(
    context: dg.AssetExecutionContext,
    store: Store,
    progress: Progress,
    recipe: str,
    work: Callable[[StageRun], None],
    inspect: Callable[[StageRun], list[Check]],
) -> dg.MaterializeResult:
    """Work on each partition of the step under its lock; a failed listing fails the step after the others."""
    stage = context.asset_key.to_user_string()
    runs: list[StageRun] = []
    found: list[list[Check]] = []
    broken: list[tuple[str, Exception]] = []
    for key in context.partition_keys:
        started = time.monotonic()
        kb_id, source_id = ids.split_partition(key)
        try:
            source = store.catalog.source(kb_id, source_id)
            run = StageRun(stage, recipe, store, source, context.run.run_id, progress)
            with store.working_on(source):
                work(run)
                checks = inspect(run)
        except (NotVisible, UnitFailure) as failure:
            broken.append((key, failure))
            continue
        except SystemicError as error:
            raise dg.Failure(f"{stage} {key}: {error}", allow_retries=False) from error
        except OSError as error:
            raise dg.Failure(
                f"{stage} {key}: {error}. Free the disk or mend access, then sync again.", allow_retries=False
            ) from error
        run.count(seconds=round(time.monotonic() - started, 3))
        runs.append(run)
        found.append(checks)
        if len(context.partition_keys) > 1:
            context.add_asset_metadata(_metadata([run]), partition_key=key)
    if broken:
        raise _broken(stage, broken)
    return _result(runs, found)


def _broken(stage: str, broken: Sequence[tuple[str, Exception]]) -> dg.Failure:
    reasons = "; ".join(f"{key}: {failure}" for key, failure in broken)
    kinds = {key: getattr(failure, "kind", "gone") for key, failure in broken}
    return dg.Failure(f"{stage} failed: {reasons}", metadata={"kinds": kinds}, allow_retries=False)


def _metadata(runs: Sequence[StageRun]) -> dict[str, dg.MetadataValue]:
    names = (
        "rows_in",
        "written",
        "skipped",
        "removed",
        "documents_failed",
        "tokens",
        "cost_usd",
        "seconds",
        "size_bytes",
    )
    totals = {name: 0.0 for name in names}
    for run in runs:
        for name, amount in run.counts.items():
            totals[name] = totals.get(name, 0.0) + amount
    shown: dict[str, dg.MetadataValue] = {
        name: dg.MetadataValue.float(round(amount, 4))
        if name in ("cost_usd", "seconds")
        else dg.MetadataValue.int(int(amount))
        for name, amount in totals.items()
        if name != "rows"
    }
    shown["dagster/row_count"] = dg.MetadataValue.int(int(sum(run.counts.get("rows", 0) for run in runs)))
    failures = [failure for run in runs for failure in run.failures][:_FAILURES_SHOWN]
    if failures:
        records = [
            dg.TableRecord({"document": name, "kind": kind, "reason": reason}) for name, kind, reason in failures
        ]
        shown["failures"] = dg.MetadataValue.table(records)
    return shown


def _result(runs: Sequence[StageRun], found: Sequence[list[Check]]) -> dg.MaterializeResult:
    results: dict[str, dg.AssetCheckResult] = {}
    for run, checks in zip(runs, found, strict=True):
        standing = run.store.ledger.failures(run.stage, run.source.kb_id, run.source.source_id)
        reasons = "; ".join(reason for _, _, reason in standing[:5])
        text = f"{len(standing)} failed: {reasons}" if standing else ""
        for name, passed, description in [*checks, ("no_document_failed", not standing, text)]:
            before = results.get(name)
            results[name] = dg.AssetCheckResult(
                check_name=name,
                passed=passed and (before is None or before.passed),
                severity=dg.AssetCheckSeverity.WARN if name == "no_document_failed" else dg.AssetCheckSeverity.ERROR,
                description=" | ".join(filter(None, [before.description if before else "", description])) or None,
            )
    versions = [run.store.ledger.data_version(run.stage, run.source.kb_id, run.source.source_id) for run in runs]
    return dg.MaterializeResult(
        metadata=_metadata(runs),
        check_results=list(results.values()),
        data_version=dg.DataVersion(versions[0] if len(versions) == 1 else ids.sha256_hex(*versions)),
    )


def inspect_dataset(table: Table) -> Callable[[StageRun], list[Check]]:
    """The checks of a Parquet stage."""

    def inspect(run: StageRun) -> list[Check]:
        dataset: Dataset = run.store.dataset(table, run.source)
        report = dataset.inspect()
        run.count(rows=report.rows, size_bytes=dataset.size_bytes())
        _, expected = run.store.ledger.totals(run.stage, run.source.kb_id, run.source.source_id)
        return [
            ("schema_matches", not report.foreign_parts, ", ".join(report.foreign_parts)),
            ("keys_are_unique", report.rows == report.keys, f"{report.rows} rows, {report.keys} keys"),
            ("ledger_matches_rows", report.rows == expected, f"{report.rows} rows, {expected} in the ledger"),
        ]

    return inspect
