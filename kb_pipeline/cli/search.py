"""`kb search` and `kb eval`: the read side from the shell."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kb_pipeline.cli.home import open_store, read_settings
from kb_pipeline.cli.output import excerpt, print_json, print_table, printable

if TYPE_CHECKING:
    from kb_pipeline.query import SearchResult

_SHOWN_CHARS = 400


@click.command("search")
@click.argument("query")
@click.option("--kb", "kb_ids", multiple=True, help="Name or id; several times for several; default all you may see.")
@click.option("--top-k", default=5, show_default=True, type=click.IntRange(1, 1000))
@click.option("--user", "user_id", help="Search as this user.")
@click.option("--client", "client_id", help="Search as a member of this client's account.")
@click.option("--mode", "modes", multiple=True, type=click.Choice(["dense", "sparse"]), help="Only this channel.")
@click.option("--explain", is_flag=True, help="Show ranks and scores of each channel.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def search_command(
    query: str,
    kb_ids: tuple[str, ...],
    top_k: int,
    user_id: str | None,
    client_id: str | None,
    modes: tuple[str, ...],
    explain: bool,
    as_json: bool,
) -> None:
    """Find the passages that answer QUERY, with numbered sources."""
    read_settings()
    from kb_pipeline.query import OPERATOR, Caller, open_query

    caller = Caller(user_id=user_id, client_id=client_id) if user_id or client_id else OPERATOR
    with open_query() as opened:
        result = opened.search(
            query,
            caller=caller,
            kb_id=list(kb_ids) or None,
            top_k=top_k,
            modes=modes or None,  # type: ignore[arg-type]  # click.Choice has checked them
            explain=explain,
        )
        if as_json:
            print_json(result.to_json())
        else:
            print_result(result, explain)


def print_result(result: "SearchResult", explain: bool = False) -> None:
    """Numbered passages with where they stand."""
    if not result.hits:
        click.echo("Nothing found.")
    for hit in result.hits:
        place = f", page {hit.page}" if hit.page else ""
        heading = hit.section if hit.section.startswith(hit.document_title) else hit.document_title
        nearness = f"similarity {hit.similarity:.2f}" if hit.ranks or hit.similarity >= 0.005 else "(weak)"
        click.secho(f"[{hit.rank}] {printable(heading)}", bold=True)
        click.echo(f"    {printable(hit.source)}{place}  {nearness}")
        for other in hit.also_in:
            click.echo(f"    also in {printable(other.document_title)}")
        if explain:
            ranks = ", ".join(f"{name} #{rank}" for name, rank in hit.ranks.items())
            scores = ", ".join(f"{name} {score:.3f}" for name, score in hit.scores.items())
            click.echo(f"    ranks {ranks}; scores {scores}; characters {hit.start_char}–{hit.end_char}")
        click.echo(f"    {excerpt(hit.chunk_text, result.query, _SHOWN_CHARS)}\n")
    for note in result.notes:
        click.echo(f"Note: {printable(note)}", err=True)


@click.command("eval")
@click.argument("kb")
@click.option(
    "--queries", required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path), help=".jsonl: id, text"
)
@click.option(
    "--qrels",
    required=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help=".tsv: query, document, score",
)
@click.option("--top-k", default=10, show_default=True, type=click.IntRange(1, 1000))
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def eval_command(kb: str, queries: Path, qrels: Path, top_k: int, as_json: bool) -> None:
    """Score retrieval in KB against judged queries: hybrid, and each channel alone."""
    read_settings()
    from kb_pipeline.query import open_query
    from kb_pipeline.query.evaluate import evaluate, read_qrels, read_queries

    judged = read_qrels(qrels)
    with open_query() as opened:
        scores = evaluate(opened, kb, read_queries(queries), judged, top_k)
    there = {row["external_id"] for row in open_store().documents.rows(scores["kb_id"])}
    strangers = len({document for of_query in judged.values() for document in of_query} - there)
    if strangers:
        click.echo(f"Note: {strangers} judged documents are not in {kb}; they count as not found.", err=True)
    if scores["queries_unknown"]:
        click.echo(f"Note: {scores['queries_unknown']} judged queries are not in {queries}; left out.", err=True)
    if as_json:
        print_json(scores)
        return
    columns = ["ndcg@10", "recall@10", "mrr@10"]
    rows = [
        {"channel": "hybrid", **scores},
        *({"channel": name, **score} for name, score in scores["channels"].items()),
    ]
    title = f"{scores['kb_id']}: {scores['queries']} queries, p50 {scores['p50_ms']} ms, p95 {scores['p95_ms']} ms"
    print_table(rows, ["channel", *columns], title=title)
