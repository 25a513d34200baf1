"""Fit the trees of ``moye.kernels.gemm.sm90.choice`` to what ``gemm_measure.py`` measured: where the model is off.

    cd benchmarks/data; python ../gemm_choice_fit.py gemm_sm90.csv.gz gemm_drawn.csv.gz [--write]     # scikit-learn

In: CSVs of measured products and configurations.  Out: ``choice.npz``; the regret of the choice, its time over that of
the best that was measured, by the model alone and with trees that were fitted to other products (a fifth is kept back
at a time).  After ``gemm_fit.py`` has changed the costs, the trees must be fitted again: they correct these costs.
"""

import argparse
import dataclasses
import math
import random
import statistics

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

from gemm_fit import MULTIPROCESSORS, today
from gemm_model import read
from moye.kernels.gemm.parts.trees import fitted
from moye.kernels.gemm.sm90 import choice
from moye.kernels.gemm.sm90.config import COSTS, estimate

PARTS = 5
SLOW = 3.0
"""Configurations count by this power of the best's time over theirs; in what a product's have in common by the next."""
OPTIONS = {"max_iter": 200, "learning_rate": 0.1, "max_leaf_nodes": 31, "min_samples_leaf": 8, "l2_regularization": 1.0,
           "max_features": 0.4, "random_state": 0}


@dataclasses.dataclass
class Sample:
    """A product: features of its configurations, what these take, and cuBLAS."""

    extents: tuple
    rows: np.ndarray
    us: np.ndarray
    cublas: float

    @property
    def off(self):
        """How far the model is off, less what the product's configurations have in common: that changes no choice."""
        off = np.log(self.us) - self.rows[:, 0]
        return off - np.average(off, weights=(self.us.min() / self.us) ** (SLOW + 1))

    @property
    def weights(self):
        return (self.us.min() / self.us) ** SLOW


def samples(files):
    """Products of the kind that the trees are for, of which two and more configurations were measured."""
    found = []
    for (problem, _), times in today(read(files)).items():
        ours = {config: us for config, us in times.items() if config is not None}
        if len(ours) > 1 and choice.measured(problem):
            rows = [choice.features(config, problem, estimate(config, problem, MULTIPROCESSORS), MULTIPROCESSORS)
                    for config in ours]
            found.append(Sample((problem.M, problem.N, problem.K), np.array(rows, np.float32),
                                np.array(list(ours.values())), times[None]))
    return found


def fit(products, **options):
    """The trees, by scikit-learn."""
    trees = HistGradientBoostingRegressor(**OPTIONS | options)
    return trees.fit(np.concatenate([one.rows for one in products]), np.concatenate([one.off for one in products]),
                     sample_weight=np.concatenate([one.weights for one in products]))


def told(name, products, corrections):
    """One line: what is chosen by the model's times with these corrections."""
    chosen = [int(np.argmin(one.rows[:, 0] + more)) for one, more in zip(products, corrections, strict=True)]
    regrets = sorted(one.us[i] / one.us.min() - 1 for one, i in zip(products, chosen, strict=True))
    ratios = [one.cublas / one.us[i] for one, i in zip(products, chosen, strict=True)]
    print(f"{name}: {len(products)} products; regret mean {statistics.fmean(regrets):.4f}, 95 % below "
          f"{regrets[int(0.95 * len(regrets))]:.3f}; to cuBLAS {statistics.geometric_mean(ratios):.3f}, below 0.97 "
          f"{sum(x < 0.97 for x in ratios) / len(ratios):.3f}, 0.90 {sum(x < 0.9 for x in ratios)}")


def judged(products, **options):
    """The corrections of each product, by trees that know no product of its extents."""
    part = {extents: random.Random(f"{extents}").randrange(PARTS) for extents in {one.extents for one in products}}
    trees = [fit([one for one in products if part[one.extents] != i], **options) for i in range(PARTS)]
    return [trees[part[one.extents]].predict(one.rows) for one in products]


def arrays(trees, costs):
    """What ``Trees`` has, and the costs that it corrects."""
    nodes = [predictor.nodes for predictors in trees._predictors for predictor in predictors]
    starts = np.cumsum([0, *map(len, nodes)])
    joined, own = np.concatenate(nodes), np.arange(starts[-1])
    first = np.repeat(starts[:-1], list(map(len, nodes)))
    leaf = joined["is_leaf"].astype(bool)
    assert starts[-1] < 1 << 16, "more nodes than 16 bits count"
    low, high = (np.where(leaf, own, joined[side] + first).astype(np.uint16) for side in ("left", "right"))
    return {"roots": starts[:-1].astype(np.uint16),
            "feature": np.where(leaf, 0, joined["feature_idx"]).astype(np.uint8),
            "limit": np.where(leaf, 0, joined["num_threshold"]).astype(np.float32), "low": low, "high": high,
            "value": np.where(leaf, joined["value"], 0).astype(np.float32), "depth": max(joined["depth"]),
            "costs": np.array(dataclasses.astuple(costs))}


def judge(products, write, path, costs, **options):
    """Tell what the model and the trees are worth; ``write`` those that all products were given to.  ``options``: of
    the trees, in place of ``OPTIONS``.
    """
    told("the model", products, [0.0] * len(products))
    told("with trees", products, judged(products, **options))
    if not write:
        return
    trees = fit(products, **options)
    np.savez_compressed(path, **arrays(trees, costs))
    fitted.cache_clear()
    rows = np.concatenate([one.rows for one in products])
    worst = float(np.abs(fitted(path).of(rows) + trees._baseline_prediction.item() - trees.predict(rows)).max())
    assert math.isclose(worst, 0, abs_tol=1e-4), f"trees that were written are off by {worst}"
    print(f"{path.name}: {len(fitted(path).value)} nodes, {path.stat().st_size} bytes")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--write", action="store_true", help="choice.npz")
    options = parser.parse_args()
    judge(samples(options.files), options.write, choice.FITTED, COSTS)


if __name__ == "__main__":
    main()
