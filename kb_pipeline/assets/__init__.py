"""Dagster assets, one module per stage in flow order."""
