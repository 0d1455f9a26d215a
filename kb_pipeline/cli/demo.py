"""`kb demo`: a knowledge base from a feed, a page and files of this machine; questions answered with sources."""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from email.message import Message
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from kb_pipeline.cli.home import open_registry, open_store
from kb_pipeline.cli.output import excerpt, printable

if TYPE_CHECKING:
    from kb_pipeline.connectors.registry import Registry
    from kb_pipeline.storage.catalog_records import SourceRow
    from kb_pipeline.storage.store import Store

SITE = "notes.kb.example"
"""Name of the pages in examples/site, served on loopback: their addresses do not depend on a port."""
TOPICS = (
    "assert", "assignment", "async", "atom-identifiers", "break", "calls", "class", "comparisons", "context-managers",
    "debugger", "del", "dict", "exceptions", "for", "formatstrings", "function", "global", "if", "import", "integers",
    "lambda", "lists", "numeric-types", "raise", "return", "sequence-types", "slicings", "strings", "truth", "try",
    "while", "with", "yield",
)  # fmt: skip
"""Chapters of the Python language reference that CPython ships as text (what `help('with')` shows)."""
PACKAGES = (
    "alembic", "click", "defusedxml", "duckdb", "feedparser", "filelock", "httpx", "numpy", "protego", "pyarrow",
    "pydantic", "pypdfium2", "rich", "tenacity", "tokenizers", "trafilatura",
)  # fmt: skip
"""Installed packages whose README comes along in their metadata."""
_SUFFIX = re.compile(r"\.[A-Za-z]\w{0,4}$")
"""End of a title that is a file's name: no part of a question."""
QUESTIONS = (
    "Why did a page that was taken down still answer questions?",
    "What does it mean when a document is archived?",
    "How do I stop at a line in pdb only when a condition is true?",
    "Which library extracts the main text of a web page?",
)


@click.command("demo")
@click.option("--source", help="URL, file or folder to use instead of the examples.")
def demo_command(source: str | None) -> None:
    """Build a knowledge base and answer questions from it, with numbered sources."""
    if source:
        _run("demo-own", {source: ""}, ())
        return
    site = Path(__file__).parents[2] / "examples" / "site"
    if not site.is_dir():
        raise click.UsageError("The examples are in the project's folder; run `kb demo` there, or give --source.")
    with _served(site) as address:
        os.environ["HTTP_ROUTE"] = f"{SITE}={address}"
        store = open_store()
        files = store.settings.demo_files
        write_documentation(files)
        pages = {f"https://{SITE}/feed.xml": "example feed", f"https://{SITE}/handbook.html": "example page"}
        named = {address: f"{name} (served only while kb demo runs)" for address, name in pages.items()}
        _run("demo", {**named, str(files): "documentation of Python and of installed packages"}, QUESTIONS)
    click.echo("The feed and the page are served only while `kb demo` runs: run it again to sync them.")


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    """The folder on a free loopback port; yields host:port."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Requests of the demo to itself are of no interest."""


def write_documentation(folder: Path) -> None:
    """Write documentation of CPython and of installed packages as files; unchanged files are left alone."""
    from pydoc_data.topics import topics

    pages = {f"python/{name}.txt": topics[name] for name in TOPICS if name in topics}
    for name in PACKAGES:
        about = cast(Message, metadata.metadata(name))
        suffix = ".rst" if "rst" in about.get("Description-Content-Type", "rst") else ".md"
        pages[f"packages/{name}{suffix}"] = str(about.get("Description") or about.get_payload())
    for path, text in pages.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists() or target.read_text(encoding="utf-8") != text:
            target.write_text(text, encoding="utf-8")


def _run(name: str, inputs: Mapping[str, str], questions: tuple[str, ...]) -> None:
    """Sync the inputs, given with their names, into a knowledge base of their own, and answer the questions."""
    from kb_pipeline.automation.run import open_syncer
    from kb_pipeline.cli.sync import BarProgress, failed_documents, print_failed, print_reports

    store = open_store()
    bases = {base.name: base for base in store.catalog.knowledge_bases()}
    base = bases.get(name) or store.catalog.create_knowledge_base(name, description="Made by `kb demo`.")
    with open_registry(store.settings) as registry:
        sources = [_add(store, registry, base.kb_id, *each) for each in inputs.items()]
    count = "1 source" if len(sources) == 1 else f"{len(sources)} sources"
    click.echo(f"Building knowledge base {base.kb_id!r} from {count} in {store.layout.home} …")
    with BarProgress() as progress, open_syncer(store, progress) as syncer:
        reports = [syncer.sync(source).as_json() for source in sources]
    print_reports(reports)
    print_failed(failed_documents(store.documents, sources))
    _answer(store, base.kb_id, questions or _titles(store, base.kb_id))
    command = ".venv/bin/kb" if Path(sys.argv[0]).parent.parts[-2:] == (".venv", "bin") else "kb"
    click.echo("Try next:")
    for line in (
        f'search "your question" --kb {base.kb_id}',
        f"docs {base.kb_id}",
        'sql "SELECT title, chunks FROM kb_documents"',
    ):
        click.echo(f"  {command} {line}")
    click.echo("  make dev      opens the Dagster UI on this home")
    if any(report["status"] == "failed" for report in reports):
        raise SystemExit(1)


def _add(store: "Store", registry: "Registry", kb_id: str, source_input: str, name: str) -> "SourceRow":
    """The input as a source; its id is made from the input, so the name, which is a sentence, comes after."""
    from kb_pipeline.sources import add_source

    source = add_source(store.catalog, registry, kb_id, source_input)
    return add_source(store.catalog, registry, kb_id, source_input, name=name) if name else source


def _titles(store: "Store", kb_id: str) -> tuple[str, ...]:
    ready = store.documents.rows(kb_id, status="ready")
    return tuple(dict.fromkeys(_SUFFIX.sub("", row["title"]) for row in ready))[:3]


def _answer(store: "Store", kb_id: str, questions: tuple[str, ...]) -> None:
    from kb_pipeline.query import OPERATOR, open_query

    with open_query(store.layout.home) as query:
        for question in questions:
            click.echo()
            click.secho(printable(question), bold=True)
            for source in query.search(question, caller=OPERATOR, kb_id=kb_id, top_k=3).sources:
                click.echo(f"  [{source.number}] {printable(source.source)}  ({source.relevanceScore:.2f})")
                click.echo(f"      {excerpt(source.text, question, 240)}")
    click.echo()
