"""All schemes on scikit-learn's digits, a real training that needs no download.

A 64-16-10 ReLU net with cross-entropy, full batch, eta 0.1, 1000 steps, from torch's default
initialisation after `manual_seed(s)`; 300 of the 1797 images are training data and the rest are
test, so that the gap is there to be seen. The levels mu = 0.01 and sigma = 0.02 are those of the
paper's text for airfoil. Everything is float64 and measured after the last step. The paper has no
such experiment: the claims put to the test are the ones it makes on its own data sets, and only
noise with fresh signs is run. The mini-batch reference takes as many steps, each on 32 images.
"""

from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.schema import Needs
from mpgd_lab.studies.digits.runs import COMPARISON, tasks
from mpgd_lab.studies.digits.section import blocks
from mpgd_lab.studies.digits.training import MAX_BATCH, train

EXPERIMENT = Experiment(
    name="digits",
    runs=tasks,
    train=train,
    printout=COMPARISON.printout,
    needs=lambda run: Needs(("test_accuracy", "test_loss", "gap")),
    section=SectionSpec("Digits", blocks, place=7),
    max_batch=lambda run: MAX_BATCH,
    seconds=0.4,
)
