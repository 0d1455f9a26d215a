"""Commands that take things away: remove a source, forget a document, and let it come back."""

import getpass

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.output import print_json, printable


@click.command("remove")
@click.argument("kb")
@click.argument("source")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def remove_command(kb: str, source: str, as_json: bool) -> None:
    """Remove SOURCE from KB with all that it brought. Its documents stay listed as archived, without their texts."""
    from kb_pipeline.automation.instance import open_instance
    from kb_pipeline.automation.partitions import source_partitions
    from kb_pipeline.automation.sensors import in_flight
    from kb_pipeline.lifecycle.removal import remove_source

    store = open_known_store()
    with open_instance(store.settings) as instance:
        count = remove_source(
            store,
            kb,
            source,
            is_busy=lambda partition: partition in in_flight(instance),
            drop_partition=lambda partition: instance.delete_dynamic_partition(str(source_partitions.name), partition),
        )
    if as_json:
        print_json({"kb": kb, "source": source, "documents": count})
    else:
        click.echo(f"Removed {printable(source)} from {kb}, and {count} documents with it.")


@click.command("forget")
@click.argument("kb")
@click.argument("document", metavar="DOC", required=False)
@click.option("--url", help="Address of the document, instead of DOC.")
@click.option("--by", default="", help="Who asks for it; by default the user of this machine.")
@click.option("--json", "as_json", is_flag=True, help="The receipt as one JSON document on stdout.")
def forget_command(kb: str, document: str | None, url: str | None, by: str, as_json: bool) -> None:
    """Forget a document of KB for good: bytes, rows, vectors, old versions, the searches it answered.

    DOC is an id, an external id, an address or a title. It does not come back with the next sync; `kb unforget` lifts
    that. Keep the receipt: it is the only thing that still names the document.
    """
    from kb_pipeline.lifecycle.forgetting import forget

    if bool(document) == bool(url):
        raise click.UsageError("Say which document to forget: DOC or --url.")
    receipt = forget(open_known_store(), kb, document or url or "", by or getpass.getuser()).as_json()
    if as_json:
        print_json(receipt)
        return
    click.echo("Forgotten. Receipt:")
    for name, value in receipt.items():
        shown = ", ".join(f"{key} {count}" for key, count in value.items()) if isinstance(value, dict) else value
        shown = ", ".join(value) if isinstance(value, list) else shown
        click.echo(f"  {name}: {printable(str(shown)) if shown not in ('', None) else '-'}")
    if receipt["shared_with"]:
        click.echo("Other documents consist of the same bytes and stay; forget them too if they are to go.")


@click.command("unforget")
@click.argument("kb")
@click.argument("document", metavar="DOC")
def unforget_command(kb: str, document: str) -> None:
    """Let DOC (document id, external id or address, from the receipt) come back with the next sync of its source."""
    from kb_pipeline.lifecycle.forgetting import unforget

    unforget(open_known_store(), kb, document)
    click.echo("It may come back; the next sync of its source brings it, if it is still there.")
