"""`kb spaces`, `kb promote`, `kb rollback`, `kb set`: which space search reads, and what a base is made by."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.output import print_json, print_table
from kb_pipeline.kb_settings import OWN_SETTINGS, changed

if TYPE_CHECKING:
    from kb_pipeline.lifecycle.spaces import Swap
    from kb_pipeline.storage.store import Store


@click.command("spaces")
@click.argument("kb")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def spaces_command(kb: str, as_json: bool) -> None:
    """List the spaces of KB: what search reads, what is built beside it, what is kept for a way back."""
    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    rows = _spaces(store, kb_id)
    if as_json:
        print_json({"kb_id": kb_id, "spaces": rows})
        return
    columns = {"space_id": "space", "role": "role", "since": "since", "done": "documents", "failed": "failed"}
    empty = "No space yet; `kb sync` makes the first."
    print_table(rows, {**columns, "waiting": "to come", "rows": "passages"}, empty=empty)
    candidate = next((row for row in rows if row["role"] == "candidate"), None)
    if candidate:
        if candidate["reason"]:
            click.echo(f"In the candidate: {candidate['reason']}")
        next_step = f"kb sync {kb_id}" if candidate["waiting"] else f"kb promote {kb_id}"
        click.echo(f"Next: {next_step}")


@click.command("promote")
@click.argument("kb")
@click.option("--force", is_flag=True, help="Also if documents are not in it yet, or failed.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def promote_command(kb: str, force: bool, as_json: bool) -> None:
    """Let search read the candidate space of KB, which `kb sync` built after its settings changed."""
    from kb_pipeline.lifecycle.spaces import promote

    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    _tell(kb_id, promote(store, kb_id, force), as_json, f"`kb rollback {kb_id}` goes back.")


@click.command("rollback")
@click.argument("kb")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def rollback_command(kb: str, as_json: bool) -> None:
    """Let search read again what it read before the last `kb promote`."""
    from kb_pipeline.lifecycle.spaces import roll_back

    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    swap = roll_back(store, kb_id)
    missing = store.spaces.built(swap.serving).waiting
    advice = f"{missing} documents that changed since are found again after `kb sync {kb_id}`. " if missing else ""
    advice += f"The settings still ask for another space; `kb set {kb_id} NAME=VALUE` makes them ask for this one."
    _tell(kb_id, swap, as_json, advice)


@click.command("set")
@click.argument("kb")
@click.argument("values", metavar="[NAME=VALUE]…", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def set_command(kb: str, values: tuple[str, ...], as_json: bool) -> None:
    """Show what KB is made by, or set it for KB alone; NAME= takes the home's setting again.

    NAME is EMBEDDING_MODEL, CHUNK_UNIT, CHUNK_SIZE or CHUNK_OVERLAP. The next sync builds a space by it beside the one
    that search reads.
    """
    store = open_known_store()
    base = store.catalog.knowledge_base(kb)
    if values:
        store.catalog.set_settings(base.kb_id, changed(store.settings, base.settings, values))
        base = store.catalog.knowledge_base(base.kb_id)
    settings = store.settings_of(base)
    size, overlap = settings.split_sizes
    shown = {**settings.model_dump(include=set(OWN_SETTINGS)), "chunk_size": size, "chunk_overlap": overlap}
    if as_json:
        print_json({"kb_id": base.kb_id, "settings": shown, "own": sorted(base.settings)})
        return
    rows = [
        {"name": name.upper(), "value": shown[name], "from": "this base" if name in base.settings else "the home"}
        for name in OWN_SETTINGS
    ]
    print_table(rows, ["name", "value", "from"])
    if values:
        click.echo(f"Next: kb sync {base.kb_id}")


def _spaces(store: "Store", kb_id: str) -> list[dict[str, Any]]:
    base = store.catalog.knowledge_base(kb_id)
    sources = store.catalog.sources(kb_id)
    rows = []
    for space in store.spaces.of(kb_id):
        index = store.index(base.tenant, space.space_id)
        passages = sum(index.count_rows(kb_id, source.source_id) for source in sources)
        built = asdict(store.spaces.built(space))
        if space.role not in ("serving", "candidate"):
            built["waiting"] = 0  # nothing is added to it any more
        rows.append({**asdict(space), **built, "rows": passages})
    return rows


def _tell(kb_id: str, swap: "Swap", as_json: bool, advice: str) -> None:
    if as_json:
        print_json({"kb_id": kb_id, "serving": swap.serving.space_id, "previous": swap.previous.space_id})
    else:
        click.echo(f"{kb_id} is read from {swap.serving.space_id} now, no longer from {swap.previous.space_id}.")
        click.echo(advice)
