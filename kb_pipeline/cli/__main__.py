"""`python -m kb_pipeline.cli` is `kb`."""

from kb_pipeline.cli import main

main()
