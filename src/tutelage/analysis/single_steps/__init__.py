"""One step of SGD looked at alone: its measured moments against the theory's, and how they concentrate with N."""
