"""Computes scipy.json, the values that the statistics are tested against.

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install scipy==1.17.1
    /tmp/venv/bin/python crates/bench/src/statistics/tests/scipy_vectors.py
"""

import json
import os

import numpy as np
from scipy import stats

rng = np.random.default_rng(20260101)


def ranks(a, b, method):
    found = stats.mannwhitneyu(b, a, alternative="two-sided", method=method)
    return {"a": a, "b": b, "u": float(found.statistic), "p": float(found.pvalue)}


def permuted(a, b):
    """The exact p with ties: all divisions of the pooled values."""

    def distance(x, y):
        return abs(stats.mannwhitneyu(x, y, method="asymptotic").statistic - len(x) * len(y) / 2)

    found = stats.permutation_test(
        (b, a), distance, permutation_type="independent", n_resamples=np.inf, alternative="greater"
    )
    return {"a": a, "b": b, "u": float(stats.mannwhitneyu(b, a).statistic), "p": float(found.pvalue)}


def sample(n, shift=0.0, digits=6):
    return [round(float(v), digits) for v in rng.lognormal(mean=4.6 + shift, sigma=0.1, size=n)]


def whole(n, high):
    return [float(v) for v in rng.integers(1, high, size=n)]


def trend(n, slope, digits):
    points = [(float(i), round(float(100 + slope * i + rng.normal()), digits)) for i in range(n)]
    x, y = [p[0] for p in points], [p[1] for p in points]
    sen = stats.theilslopes(y, x, 0.95)
    tau = stats.kendalltau(x, y, method="exact")
    return {
        "points": points,
        "slope": float(sen.slope),
        "low": float(sen.low_slope),
        "high": float(sen.high_slope),
        "p": float(tau.pvalue),
    }


def summary(values):
    return {
        "values": values,
        "median": float(np.median(values)),
        "mad": float(stats.median_abs_deviation(values)),
        "q25": float(np.quantile(values, 0.25)),
        "q75": float(np.quantile(values, 0.75)),
        "cv_percent": float(np.std(values, ddof=1) / np.mean(values) * 100),
    }


def interval(values):
    found = stats.bootstrap((values,), np.median, method="BCa", n_resamples=20000, rng=rng)
    return {
        "values": values,
        "low": float(found.confidence_interval.low),
        "high": float(found.confidence_interval.high),
    }


def shift(a, b):
    pairs = [y - x for x in a for y in b]
    ratios = [y / x for x in a for y in b]
    return {"a": a, "b": b, "shift": float(np.median(pairs)), "ratio": float(np.median(ratios))}


sizes = [(1, 1), (3, 3), (4, 4), (5, 5), (5, 8), (7, 4), (10, 10), (20, 20), (25, 25)]
vectors = {
    "exact": [ranks(sample(n), sample(m, d), "exact") for n, m in sizes for d in (0.0, 0.1)],
    "ties": [permuted(whole(n, h), whole(m, h)) for n, m in [(3, 4), (5, 5), (6, 4), (7, 7)] for h in (3, 6)],
    "normal": [ranks(sample(n), sample(m, 0.02), "asymptotic") for n, m in [(30, 30), (60, 41)]]
    + [ranks(whole(40, 12), whole(35, 12), "asymptotic"), ranks(whole(200, 5), whole(90, 5), "asymptotic")],
    "trends": [trend(n, s, 6) for n in (4, 6, 10, 25) for s in (0.0, 0.3, 2.0)],
    "summaries": [summary(sample(n)) for n in (1 + 1, 5, 8, 31)],
    "intervals": [interval(sample(n)) for n in (9, 15, 30, 80)],
    "shifts": [shift(sample(n), sample(m, 0.1)) for n, m in [(1, 1), (4, 5), (6, 6), (9, 2)]],
    "normal_cdf": [[float(z), float(stats.norm.cdf(z))] for z in np.arange(-8, 8.1, 0.5)],
    "normal_quantile": [[p, float(stats.norm.ppf(p))] for p in (1e-12, 1e-4, 0.025, 0.2, 0.5, 0.9, 0.975, 0.999)],
}
path = os.path.join(os.path.dirname(__file__), "scipy.json")
with open(path, "w") as file:
    json.dump(vectors, file)
    file.write("\n")
