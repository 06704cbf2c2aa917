"""What the documentation site is built with, beside mkdocs: formulas, figures, notebooks."""
