"""What sections of a report are made of: blocks, tables, curves and the style of figures."""
