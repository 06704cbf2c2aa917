"""Attacks on what must not break; `python -m tools.attack` runs them all and prints a table.

An attack is a function of a seed. It yields one entry for every try: None where all went as it
must, else what went wrong.
"""
