"""Benchmarks: ratios and scores measured in one run. Figures and the machine are in benchmarks/README.md."""
