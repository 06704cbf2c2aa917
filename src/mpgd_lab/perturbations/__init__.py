"""The noise of many runs at once: batched drivers, and the noise of the released scripts."""
