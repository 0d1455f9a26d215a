"""Tests mirror kb_pipeline/."""
