"""Where content comes from: the contract, the registry, and one connector for each kind of source."""
