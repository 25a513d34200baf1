"""Costs of a model fitted to measured products, and written into its source: what ``gemm_fit.py`` and
``gemm_simt_fit.py`` share.

In: samples whose first is a problem and whose last microseconds, the costs to begin with.  Out: the fitted ``Costs``.

    fitted(samples, model.COSTS, {"launch": 3.0}, estimate)         # a launch within three times what it was
"""

import dataclasses
import math
import re
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

from gemm_rows import geometric_mean

SHARED = 0.8                                    # of what a product's configurations have in common: no error
SHORT = 20.0                                    # microseconds
EARLIER_SUM, EARLIER_COPY = 1.0, 1.3
"""Microseconds that a product of two launches takes less since the second may begin early: what adds up parts, and what
multiplies copies, if each block has one tile.  Medians of 21 and 16 drawn products, with and without.  Data was
measured before.
"""


def fitted(samples, start, wide, estimate, shared=SHARED, surer=0.0):
    """The costs that make the least error of the logarithm, large errors counting less than their squares.

    What all configurations of a product have in common changes no choice among them, and so the ``shared`` part of it
    does not count; slow ones count less, and with ``surer`` long products, which are measured more surely, count more.
    ``wide`` has the costs that are fitted, and by which factor each may move.
    """
    numbers = {problem: i for i, problem in enumerate(dict.fromkeys(problem for problem, *_ in samples))}
    of = np.array([numbers[problem] for problem, *_ in samples])
    count, times = np.bincount(of), np.array([us for *_, us in samples])
    least = np.full(len(numbers), np.inf)
    np.minimum.at(least, of, times)
    weight, logs = (least[of] / times)**2 * (1 + surer * np.log(1 + least[of] / SHORT)), np.log(times)

    def at(x):
        return dataclasses.replace(start, **dict(zip(wide, map(math.exp, x), strict=True)))

    def errors(x):
        costs = at(x)
        off = np.log([estimate(sample, costs) for sample in samples]) - logs
        return weight * (off - shared * (np.bincount(of, off) / count)[of])

    first, room = np.log([getattr(start, name) for name in wide]), np.log(list(wide.values()))
    return at(least_squares(errors, first, bounds=(first - room, first + room), loss="soft_l1", f_scale=0.05,
                            max_nfev=80).x)


def cost_by(model, multiprocessors, costs):
    """The model's time of a product and a configuration."""
    return lambda size, config: model.modelled(config, size, multiprocessors, costs)


def told(name, products, cost):
    """What the model's choice takes over the best, and how far its times are off: {problem: {configuration: us}}."""
    regrets, off = [], []
    for problem, times in products.items():
        chosen = min(times, key=lambda config, of=problem: cost(of, config))
        regrets.append(times[chosen] / min(times.values()))
        off.append(max(r := cost(problem, chosen) / times[chosen], 1 / r))
    print(f"{name}: {len(regrets)} products; over the best by {geometric_mean(regrets) - 1:.3f}, at most by "
          f"{max(regrets) - 1:.2f}; times off by {geometric_mean(off) - 1:.3f}")


def write(costs, model):
    """Into the source of the model."""
    path, kind = Path(model.__file__), type(costs).__name__
    before, head, text = re.split(rf"^(class {kind}\b.*)$", path.read_text(), maxsplit=1, flags=re.MULTILINE)
    own, rest = re.split(r"^(?=\S)", text, maxsplit=1, flags=re.MULTILINE)
    for f in dataclasses.fields(costs):
        told = f"    {f.name}: float = {getattr(costs, f.name):.4g}"
        own = re.sub(rf"^    {f.name}: float = \S+ *(#?)", lambda m, told=told: f"{told:31} {m[1]}".rstrip(), own,
                     flags=re.MULTILINE)
    path.write_text(before + head + own + rest)
