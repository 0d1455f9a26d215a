"""The outside world: one Protocol a service, then one file per provider."""
