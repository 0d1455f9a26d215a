"""Pure work: no I/O, no environment, no clock, no Dagster."""
