"""The only code that touches disk or database."""
