"""The laboratory: every claim of the paper as a study, and the page that shows whether it holds.

    store, archive        results on disk, one by one or in one file
    verdicts              intervals and tests of differences, the rule of claims
    data/, nets/          data sets, many small nets as one
    perturbations/        the noise of many runs at once
    batched_training      the loop in which many runs descend together
    schemes, experiment   a row of a table and a study, as values
    runner/               the loop of a study: train the runs the store lacks, print tables
    content/              what the sections of a report are made of
    studies/              one folder for each study, listed in `mpgd_lab.catalogue`
    report/, lab/         the page of results; the page with sliders
    cli                   the command `mpgd`

It imports the library `mpgd`, which imports nothing of it.
"""
