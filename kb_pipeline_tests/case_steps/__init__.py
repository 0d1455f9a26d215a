"""The words of cases mapped onto the product: steps do, expectations look. `kb_pipeline_tests.cases` runs them."""
