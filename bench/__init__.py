"""How fast AGS is beside its peers, measured in one run on one machine."""
