"""What runs before ags can: standard library only, on any Python the launcher finds."""
