"""The index over `runs/`. Nothing is in it that could not be read there, so it may be lost."""

from ags.store.db import Listing, Store, rebuild
from ags.store.queries import Filter, Order, Summary

__all__ = ["Filter", "Listing", "Order", "Store", "Summary", "rebuild"]
