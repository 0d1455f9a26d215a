"""What makes a function an asset of group `sync`, and how its step goes through partitions."""

import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import dagster as dg

from kb_pipeline import ids
from kb_pipeline.assets.memory import bound_arenas, give_back
from kb_pipeline.assets.result import CHECKS, Check, metadata_of, result_of
from kb_pipeline.assets.stage import Progress, StageRun
from kb_pipeline.automation.partitions import OWNERS, source_partitions
from kb_pipeline.errors import NotVisible, SystemicError, UnitFailure, UsageError
from kb_pipeline.retries import Recipe
from kb_pipeline.storage.store import Store

SOURCES_PER_RUN = 50
RETRY = dg.RetryPolicy(max_retries=2, delay=2, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""For crashes of the machinery (a locked database); a failed listing or document is not retried within the step."""


def sync_asset(
    kind: str,
    code_version: str,
    *,
    after: Sequence[dg.AssetsDefinition] = (),
    pool: str | None = None,
    checks: Sequence[str] = (),
) -> Callable[[Callable[..., Any]], dg.AssetsDefinition]:
    """An asset with one partition per source; its function's name is its key, its docstring what the UI shows.

    Args:
        kind: where it writes, as the UI's badge.
        checks: names of checks beside the common ones.
    """

    def decorate(work: Callable[..., Any]) -> dg.AssetsDefinition:
        specs = [
            dg.AssetCheckSpec(name, asset=work.__name__, description=CHECKS[name]) for name in (*COMMON_CHECKS, *checks)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.BetaWarning)  # backfill_policy, beta in dagster 1.13
            decorator = dg.asset(
                partitions_def=source_partitions,
                backfill_policy=dg.BackfillPolicy.multi_run(SOURCES_PER_RUN),
                deps=list(after),
                group_name="sync",
                kinds={kind},
                owners=OWNERS,
                code_version=code_version,
                retry_policy=RETRY,
                pool=pool,
                check_specs=specs,
            )
        return decorator(work)

    return decorate


COMMON_CHECKS = ("schema_matches", "keys_are_unique", "ledger_matches_rows", "no_document_failed", "no_source_failed")


def run_partitions(
    context: dg.AssetExecutionContext,
    store: Store,
    progress: Progress,
    recipe: Recipe,
    work: Callable[[StageRun], None],
    inspect: Callable[[StageRun], list[Check]],
) -> dg.MaterializeResult:
    """Work on each partition of the step under its lock.

    A source whose listing fails fails the step if it is the only one. Among several it must not keep the others from
    the later stages: the check `no_source_failed` says which failed and why, and the rest goes on.
    """
    bound_arenas()
    stage = context.asset_key.to_user_string()
    runs: list[StageRun] = []
    found: list[list[Check]] = []
    broken: dict[str, Exception] = {}
    for key in context.partition_keys:
        started = time.monotonic()
        try:
            run = StageRun(
                stage, recipe, store, store.catalog.source(*ids.split_partition(key)), context.run.run_id, progress
            )
            with store.working_on(run.source):
                work(run)
                checks = inspect(run)
        except (NotVisible, UsageError, UnitFailure) as failure:
            broken[key] = failure
            if len(context.partition_keys) > 1:
                context.add_asset_metadata({"not_worked_on": str(failure)}, partition_key=key)
            continue
        except SystemicError as error:
            raise dg.Failure(f"{stage} {key}: {error}", allow_retries=False) from error
        except OSError as error:
            advice = "Free the disk or mend access, then sync again."
            raise dg.Failure(f"{stage} {key}: {error}. {advice}", allow_retries=False) from error
        except (dg.DagsterExecutionInterruptedError, KeyboardInterrupt) as stop:  # else the retry policy tries again
            raise dg.Failure(f"{stage} {key}: stopped; the next sync goes on from here.", allow_retries=False) from stop
        give_back()
        run.count(seconds=round(time.monotonic() - started, 3))
        runs.append(run)
        found.append(checks)
        if len(context.partition_keys) > 1:
            context.add_asset_metadata(metadata_of([run]), partition_key=key)
    if broken and not runs:
        reasons = "; ".join(f"{key}: {failure}" for key, failure in broken.items())
        raise dg.Failure(f"{stage} failed: {reasons}", allow_retries=False)
    return result_of(runs, found, broken)
