"""kb_pipeline: sources to searchable, citable knowledge bases, kept true. Version only."""

__version__ = "0.1.0"
