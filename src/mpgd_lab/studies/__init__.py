"""One folder for each study: its runs, their training, its section of the report."""
