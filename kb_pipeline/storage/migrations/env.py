"""Runs migrations on the engine it is given; no ini file, no environment."""

from alembic import context

with context.config.attributes["engine"].connect() as connection:
    context.configure(connection=connection, render_as_batch=True)
    with context.begin_transaction():
        context.run_migrations()
    connection.commit()
