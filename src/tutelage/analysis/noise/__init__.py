"""Gaussian fluctuations of order N^(-1/2) around the theory: covariance (along a solved curve) -> fluctuations."""
