"""`kb maintain`: runs the asset `index_maintenance` in this process, for people without a daemon."""

from collections.abc import Mapping, Sequence
from typing import Any

import click

from kb_pipeline.cli.home import open_store
from kb_pipeline.cli.output import print_folded, print_json, print_table
from kb_pipeline.errors import UsageError

_HEADINGS = {
    "tenant": "tenant", "status": "status", "row_count": "rows", "fragments": "fragments", "versions": "versions",
    "size": "MB", "orphans_removed": "orphans", "blobs_removed": "blobs", "time": "time",
}  # fmt: skip


@click.command("maintain")
@click.option("--tenant", help="Only this one; without it, all: public, account-<client>, user-<owner>.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def maintain_command(tenant: str | None, as_json: bool) -> None:
    """Keep search fast and storage small: join files, renew indexes, remove old versions and what is orphaned.

    A running `dagster dev` does it every night. Searches and syncs may go on meanwhile. Exit 1 if a run failed.
    """
    from kb_pipeline.automation.instance import open_instance
    from kb_pipeline.automation.maintenance import maintain_here

    store = open_store()
    tenants = store.tenants()
    if tenant and tenant not in tenants:
        raise UsageError(f"There is no tenant {tenant!r}; there are: {', '.join(tenants) or 'none yet'}.")
    with open_instance(store.settings) as instance:
        found = maintain_here(store, instance, [tenant] if tenant else tenants)
        reports = [report.as_json() for report in found]
    if as_json:
        print_json({"tenants": reports})
    else:
        _print(reports)
    if any(report["status"] == "failed" for report in reports):
        raise SystemExit(1)


def _print(reports: Sequence[Mapping[str, Any]]) -> None:
    """A line per tenant, and under the table what needs a word."""
    rows = [
        {
            **report,
            **{name: _change(report, name) for name in ("fragments", "versions")},
            "size": _change(report, "bytes", 1_000_000),
            "time": f"{report['seconds']:.1f}s",
        }
        for report in reports
    ]
    print_table(rows, _HEADINGS, empty="There is no knowledge base yet; `kb create` makes one.")
    for report in reports:
        for said in [*report["warnings"], *filter(None, [report["error"]])]:
            print_folded(f"{report['tenant']}: {said}", "  ", "", err=True)


def _change(report: Mapping[str, Any], name: str, unit: int = 1) -> str:
    before, after = (report.get(f"{name}_{when}", 0) / unit for when in ("before", "after"))
    decimals = 1 if unit > 1 else 0
    return f"{before:.{decimals}f} → {after:.{decimals}f}"
