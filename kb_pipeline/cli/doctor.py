"""`kb doctor`."""

from collections import Counter
from contextlib import suppress
from dataclasses import asdict
from functools import partial

import click

from kb_pipeline.cli.home import read_settings
from kb_pipeline.cli.output import print_folded, print_json
from kb_pipeline.errors import KbError


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def doctor_command(as_json: bool) -> None:
    """Check model, storage, indexes, catalog and sources, and say what to do. Exit 1 if something is broken."""
    from kb_pipeline.automation.instance import check_instance
    from kb_pipeline.doctor import examine
    from kb_pipeline.services.embedders import embedders_of
    from kb_pipeline.storage.store import Store

    store = Store(read_settings())
    with suppress(KbError):  # found again, and named, where it is examined
        store.initialise()
    embedders = embedders_of(store.settings, store.layout.models)
    findings = list(examine(store, embedders.named, partial(check_instance, store.settings)))
    is_well = all(finding.state != "broken" for finding in findings)
    if as_json:
        print_json({"ok": is_well, "findings": [asdict(finding) for finding in findings]})
    else:
        ordered = sorted(findings, key=lambda finding: ["broken", "warning", "ok"].index(finding.state))
        for finding in ordered:
            print_folded(f"{finding.subject}: {finding.found}", " " * 9, f"{finding.state:<8} ")
            if finding.advice:
                print_folded(f"→ {finding.advice}", " " * 9)
        counts = Counter(finding.state for finding in findings)
        click.echo(", ".join(f"{counts[state]} {state}" for state in ("broken", "warning", "ok")) + ".")
    if not is_well:
        raise SystemExit(1)
