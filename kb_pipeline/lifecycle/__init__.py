"""What happens to knowledge bases, sources and documents as wholes: sharing, removing, forgetting."""
