"""What a solve or a simulation returns: `Trajectory`, and its files (`storage`)."""
