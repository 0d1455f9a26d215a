"""`kb plan` and `kb budget`: what a sync would do and cost, and what it may cost."""

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.output import print_folded, print_json, print_table
from kb_pipeline.cli.sync import choose_sources
from kb_pipeline.errors import UsageError

if TYPE_CHECKING:
    from kb_pipeline.storage.catalog_records import SourceRow
    from kb_pipeline.storage.store import Store

_COLUMNS = {
    "source": "source", "fetch": "fetch", "parse": "read", "split": "split", "index": "index", "remove": "remove",
    "embed": "embed", "tokens": "tokens", "usd": "USD",
}  # fmt: skip


@click.command("plan")
@click.argument("targets", metavar="[KB[/SOURCE]]…", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every source of every knowledge base.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def plan_command(targets: tuple[str, ...], everything: bool, as_json: bool) -> None:
    """Say what a sync would fetch, read, split, embed and remove now, and its price; nothing is paid for or kept.

    It lists the sources and reads what is new, as the sync would, so it takes as long as that.
    """
    store = open_known_store()
    sources = choose_sources(store.catalog, targets, everything)
    plans = _plans(store, sources)
    budgets = {kb_id: _budget(store, kb_id) for kb_id in dict.fromkeys(source.kb_id for source in sources)}
    if as_json:
        print_json({"sources": plans, "budgets": list(budgets.values())})
        return
    print_table([{**plan, "usd": f"{plan['cost_usd']:.4f}"} for plan in plans], _COLUMNS)
    for plan in plans:
        if plan["error"]:
            print_folded(f"{plan['source']}: cannot be listed: {plan['error']}", "  ", "")
        if plan["unreadable"]:
            click.echo(f"{plan['source']}: {plan['unreadable']} documents cannot be had or read.")
        if plan["builds"]:
            click.echo(f"{plan['source']}: part of this is for {plan['builds']}, built beside what search reads.")
        if plan["waiting"]:
            click.echo(f"{plan['source']}: {plan['waiting']} documents are missing and would wait for another listing.")
    for kb_id, budget in budgets.items():
        cost = sum(plan["cost_usd"] for plan, source in zip(plans, sources, strict=True) if source.kb_id == kb_id)
        if budget["left_usd"] is not None and cost > budget["left_usd"]:
            click.echo(f"{kb_id}: the budget leaves {budget['left_usd']:.4f} USD this month; the rest would wait.")


def _plans(store: "Store", sources: "list[SourceRow]") -> list[dict[str, Any]]:
    from kb_pipeline.assets.plan import Planner
    from kb_pipeline.connectors.registry import build_registry
    from kb_pipeline.services.embedders import embedders_of
    from kb_pipeline.services.http import HttpClient
    from kb_pipeline.services.sandbox import Sandbox

    embedders = embedders_of(store.settings, store.layout.models)
    with closing(HttpClient(store.settings)) as http, Sandbox(store.settings) as sandbox:
        registry = build_registry(http, store.settings)
        return [
            Planner(store, source, embedders, sandbox).plan(registry.named(source.connector)).as_json()
            for source in sources
        ]


@click.command("budget")
@click.argument("kb")
@click.argument("amount", metavar="[USD|none]", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def budget_command(kb: str, amount: str | None, as_json: bool) -> None:
    """Show what paid models have cost KB this month, or set what they may cost in a month."""
    store = open_known_store()
    kb_id = store.catalog.knowledge_base(kb).kb_id
    if amount is not None:
        store.catalog.set_budget(kb_id, _usd(amount))
    budget = _budget(store, kb_id)
    if as_json:
        print_json(budget)
        return
    limit = "no limit" if budget["budget_usd"] is None else f"of {budget['budget_usd']:.2f} USD"
    click.echo(f"{kb_id}: {budget['spent_usd']:.4f} USD this month, {limit}.")


def _usd(amount: str) -> float | None:
    if amount.lower() == "none":
        return None
    try:
        value = float(amount)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise UsageError(f"{amount!r} is no amount of USD: give a number from 0 on, or `none` for no limit.")
    return value


def _budget(store: "Store", kb_id: str) -> dict[str, Any]:
    limit, spent = store.catalog.knowledge_base(kb_id).budget_usd, store.spent_usd(kb_id)
    left = None if limit is None else max(0.0, limit - spent)
    return {"kb_id": kb_id, "budget_usd": limit, "spent_usd": spent, "left_usd": left}
