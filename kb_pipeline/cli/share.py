"""`kb share`."""

import click

from kb_pipeline.cli.home import open_known_store
from kb_pipeline.cli.output import print_json
from kb_pipeline.records import Scope


@click.command("share")
@click.argument("kb")
@click.option("--scope", type=click.Choice(["user", "account", "public"]), required=True)
@click.option("--client", "client_id", help="Whose account; scope account. As it is, unless given.")
@click.option("--owner", help="Whose; scope user. As it is, unless given.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document on stdout.")
def share_command(kb: str, scope: Scope, client_id: str | None, owner: str | None, as_json: bool) -> None:
    """Change whose KB is. Its passages move to where its new readers search; nothing is embedded anew."""
    from kb_pipeline.lifecycle.sharing import set_scope

    store = open_known_store()
    base = set_scope(store, store.catalog.knowledge_base(kb).kb_id, scope, owner=owner, client_id=client_id)
    if as_json:
        print_json({"kb_id": base.kb_id, "scope": base.scope, "owner": base.owner, "client_id": base.client_id})
    else:
        whose = {"user": base.owner, "account": base.client_id, "public": "everyone"}[base.scope]
        click.echo(f"{base.kb_id} is {base.scope} now: {whose}.")
