"""The noise of many runs at once: banks of orbits, sources of perturbations, released noise."""
