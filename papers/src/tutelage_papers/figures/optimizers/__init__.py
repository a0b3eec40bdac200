"""Figures of the optimizers that people use, on a stream of fresh samples."""
