"""The hashing stand-in."""

import numpy as np

from kb_pipeline.testing.embedder import HashingEmbedder


def test_similar_texts_are_nearer_than_others_and_runs_agree() -> None:
    embedder = HashingEmbedder("small", 256)
    pump, pumps, sea = embedder.embed_documents(["reset the pump", "resetting the pumps", "浮标的铃声 at sea"])
    assert pump @ pumps > pump @ sea
    assert np.array_equal(pump, HashingEmbedder("small", 256).embed_query("reset the pump"))
    assert not np.array_equal(pump, HashingEmbedder("other", 256).embed_query("reset the pump"))


def test_every_text_has_a_unit_vector_and_is_counted() -> None:
    embedder = HashingEmbedder("small", 8)
    vectors = embedder.embed_documents(["", "!!!", "\ud800", "word " * 500])
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1)
    assert embedder.embed_documents([]).shape == (0, 8)
    embedder.embed_query("q")
    assert (embedder.calls, embedder.texts_embedded, embedder.queries_embedded) == (1, 4, 1)
