"""Figures of learning rules: losses, labels and updates other than those of squared loss."""
