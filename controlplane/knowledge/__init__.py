"""What a team knows: runbooks, episodes, strategies, topology, and how they are found again."""
