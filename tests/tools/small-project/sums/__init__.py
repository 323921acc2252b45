"""A calculator."""

from sums.evaluate import evaluate

__all__ = ("evaluate",)
