"""Shipped, deterministic stand-ins for services and loopback servers; for tests, cases and the demo."""
