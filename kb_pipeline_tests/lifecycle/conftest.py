"""The same home as the assets' tests: what is removed must have been synced first."""

from kb_pipeline_tests.assets.conftest import folder, home

__all__ = ["folder", "home"]
