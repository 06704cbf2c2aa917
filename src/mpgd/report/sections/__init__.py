"""One file for each part of the report: records in, a `Section` out."""
