"""The table on CIFAR-10: validation accuracy and accuracy gap of ResNet-18, full batch.

    mpgd reproduce cifar10 --size full --device cuda            on one GPU
    torchrun --nproc-per-node 4 --local-ranks-filter 0 \
        -m mpgd_lab.cli reproduce cifar10 --size full --device cuda  each run on four GPUs
    mpgd reproduce cifar10 --size reduced --protocol corrected --seeds 10     hours, on a CPU
    mpgd reproduce cifar10                          a smoke test
    mpgd reproduce cifar10_step                     one step of the full recipe, on a CPU

Full recipe: ResNet-18, all 50,000 images in blocks of 128, flips and crops, eta 0.1, 1000 steps,
no momentum, no weight decay, perturbations of the input layer with mu 0.03, sigma 0.01, beta 0.5.
The mini-batch reference has Nesterov momentum 0.9, weight decay 0.0005, a warm-up of 5 epochs and
a cosine over 300. Reduced study: `REDUCED`, a narrow network and few small images; its numbers are
no estimate of the paper's. A killed run goes on from its last checkpoint with the same bits.

Protocol ``text`` follows the text: printed signs, the gap of the final network on images as they
are. Protocol ``corrected`` is the same with fresh signs. Protocol ``released`` has the authors'
noise, and every deviation of their script that `DEVIATIONS` names; descent of as many steps as the
others stands beside their longer one. Its Gaussian comes from our generator, so that only its law
is theirs.

Reference: Lim, Wan & Simsekli (2022), Section 5.3 and Appendix F.3.
"""

from mpgd_lab.data.cifar10 import BINARY
from mpgd_lab.experiment import Experiment, SectionSpec
from mpgd_lab.schema import Needs
from mpgd_lab.schemes import KINDS
from mpgd_lab.studies.cifar10.reproduction import run, select_runs
from mpgd_lab.studies.cifar10.runs import COMPARISON, ONE_STEP, run_seconds, tasks
from mpgd_lab.studies.cifar10.section import blocks
from mpgd_lab.studies.cifar10.training import train_all

NEEDS = Needs(
    ("val_accuracy", "accuracy_gap"),
    (("step", "val_accuracy"),),
    optional=True,  # a run may diverge before the first point of its curves
    choices={"noise": KINDS},
)
TIMED = Needs((*NEEDS.metrics, "training_seconds", "cpu_seconds"), choices=NEEDS.choices)
EXPERIMENT = Experiment(
    name="cifar10",
    runs=tasks,
    train=train_all,
    printout=COMPARISON.printout,
    needs=lambda run: TIMED if run.hyperparameters.get("study") == ONE_STEP else NEEDS,
    section=SectionSpec("CIFAR-10", blocks, place=6),
    data=(BINARY,),
    on_request=True,
    heavy=True,
    sample=2,
    # In float32 rounding grows over the steps until it decides single images.
    tolerance=lambda run: 0.1,
    max_batch=lambda run: 1,
    select_runs=select_runs,
    run=run,
    run_seconds=run_seconds,
    devices=("cpu", "cuda"),
    sized=True,
)
