"""Commands that have documents done again: retry what failed, reingest what is there."""

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.sync import run_sync


@click.command("retry")
@click.argument("kb")
@click.argument("names", metavar="[DOC]…", nargs=-1)
@click.option("--kind", help="Only failures of this kind.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def retry_command(kb: str, names: tuple[str, ...], kind: str | None, as_json: bool) -> None:
    """Try failed documents of KB again at once, all or those named, also such as were given up."""
    _again(kb, names, kind, as_json, is_anew=False)


@click.command("reingest")
@click.argument("kb")
@click.argument("names", metavar="DOC…", nargs=-1, required=True)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def reingest_command(kb: str, names: tuple[str, ...], as_json: bool) -> None:
    """Fetch, read, split and index documents of KB anew; DOC is an id, an external id, an address or a title."""
    _again(kb, names, None, as_json, is_anew=True)


def _again(kb: str, names: tuple[str, ...], kind: str | None, as_json: bool, is_anew: bool) -> None:
    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    rows = store.documents.named(kb_id, names) if names else store.documents.rows(kb_id)
    failed = store.ledger.failed(kb_id)  # also in a space that search does not read
    wanted_kinds = {kind} if kind else set().union(*failed.values())
    chosen = [row for row in rows if is_anew or failed.get(row["document_id"], set()) & wanted_kinds]
    mark = store.ledger.make_stale if is_anew else store.ledger.make_due
    mark([row["document_id"] for row in chosen])
    wanted = {row["source_id"] for row in chosen}
    if not wanted and not as_json:
        click.echo(f"Nothing in {kb_id} has failed." if not names else "None of these documents has failed.")
        return
    run_sync(store, [source for source in store.catalog.sources(kb_id) if source.source_id in wanted], as_json)
