"""Splitting a document into chunks: `split_document(text, marks, title, rules)`. Pure; no tokenizer of its own."""

from kb_pipeline.stages.chunk.split import SplitRules, split_document

__all__ = ["SplitRules", "split_document"]
