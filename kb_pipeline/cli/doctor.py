"""`kb doctor`."""

from collections import Counter
from dataclasses import asdict

import click

from kb_pipeline.cli.home import open_store
from kb_pipeline.cli.output import print_folded, print_json


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def doctor_command(as_json: bool) -> None:
    """Check model, storage, indexes, catalog and sources, and say what to do. Exit 1 if something is broken."""
    from kb_pipeline.doctor import examine
    from kb_pipeline.services.embedders import open_embedder

    store = open_store()
    findings = list(examine(store, lambda: open_embedder(store.settings, store.layout.models)))
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
