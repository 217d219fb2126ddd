"""Compares crates/insights with SciPy, statsmodels, pymannkendall and ruptures on seeded series.

Usage: insights.py EVALUATE, where EVALUATE is the built example `evaluate` of the crate. Prints one line per
comparison and a summary; ends with 1 if one differs by more than its tolerance.
"""

import json
import subprocess
import sys

import numpy as np
import pymannkendall
import ruptures
import scipy.stats
import statsmodels.api as sm
from statsmodels.stats.multitest import multipletests

from recompute_survey import effective, judged

SERIES = 40
# Relative to the larger of 1 and the value: both sides use doubles and differ in the order of sums and in the
# approximation of the distributions.
TOLERANCE = 1e-6
# Points exactly on the trend line are tied or not by their last bit, and a tie moves a few ranks.
TOLERANCES = {"Hamed-Rao variance": 2e-3, "Hamed-Rao p": 2e-3}


def seeded(seed):
    """A series with memory, a weekly rhythm, sometimes a trend and a step; another that follows it; answers."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(60, 200))
    memory = rng.uniform(0, 0.7)
    x = np.zeros(n)
    for day in range(n):
        x[day] = (memory * x[day - 1] if day else 0) + rng.normal()
    x += 0.5 * (np.arange(n) % 7 >= 5) + (seed % 3) * 0.02 * np.arange(n)
    if seed % 2:
        x[n // 2 :] += 3
    if seed % 5 == 0:
        x = np.round(x, 1)  # ties
    y = rng.normal(size=n)
    y[1:] += 0.6 * x[:-1]
    yes = (rng.uniform(size=n) < 0.4).astype(float)
    return {"x": x.tolist(), "y": y.tolist(), "yes": yes.tolist(), "p": rng.uniform(size=12).tolist(),
            "penalty": float(rng.uniform(5, 60))}


def weekdays(days):
    # 1970-01-01, day 0, was a Thursday.
    return (np.asarray(days) + 3) % 7


def without_weekday_means(values, days):
    values, of_week = np.asarray(values, float), weekdays(days)
    flat = values.copy()
    for weekday in range(7):
        flat[of_week == weekday] -= values[of_week == weekday].mean()
    return flat + values.mean()


def autocorrelation(values, lag):
    away = values - values.mean()
    return (away[:-lag] * away[lag:]).mean() / values.var(ddof=1)


def pairs_worth(x, y):
    n = len(x)
    product = autocorrelation(x, 1) * autocorrelation(y, 1)
    short = n * (1 - product) / (1 + product)
    total = sum((1 - lag / n) * autocorrelation(x, lag) * autocorrelation(y, lag)
                for lag in range(1, 31) if lag <= n / 5)
    return max(1, min(short, n / max(1 + 2 * total, 1e-3), n))


def checks(given, found):
    x, y, yes = (np.asarray(given[name]) for name in ("x", "y", "yes"))
    n = len(x)
    yield "median", found["median"], np.median(x)
    yield "MAD", found["robust_deviation"], 1.4826 * scipy.stats.median_abs_deviation(x)
    for ours, theirs in zip(found["q"], multipletests(given["p"], method="fdr_bh")[1]):
        yield "Benjamini-Hochberg", ours, theirs

    test = pymannkendall.hamed_rao_modification_test(x, lag=10)
    plain = pymannkendall.original_test(x)
    yield "Mann-Kendall S", found["mann_kendall"]["s"], test.s
    yield "Mann-Kendall tau", found["mann_kendall"]["tau"], test.Tau
    if test.var_s >= plain.var_s:  # ours never goes below the plain variance
        yield "Hamed-Rao variance", found["mann_kendall"]["variance"], test.var_s
        yield "Hamed-Rao p", found["mann_kendall"]["p"], test.p
    else:
        yield "Mann-Kendall variance", found["mann_kendall"]["variance"], plain.var_s
        yield "Mann-Kendall p", found["mann_kendall"]["p"], plain.p

    search = ruptures.Pelt(model="l2", min_size=14, jump=1).fit(x)
    cost = lambda ends: search.cost.sum_of_costs(list(ends)) + given["penalty"] * len(ends)
    # Two segmentations may cost the same; ruptures also prunes earlier than the minimal length allows.
    yield "PELT cost", min(cost(found["breaks"]), cost(search.predict(pen=given["penalty"]))), cost(found["breaks"])
    dynamic = ruptures.Dynp(model="l2", min_size=14, jump=1).fit(x)
    count = len(found["breaks"]) - 1
    if count:
        yield "PELT against dynamic programming", cost(found["breaks"]), cost(dynamic.predict(n_bkps=count))

    flat_x, flat_y = without_weekday_means(x, range(n)), without_weekday_means(y, range(n))
    own, later = flat_x[:-1], flat_y[1:]
    ours = found["correlation"]
    # The six weekday means besides the mean of all were taken from the same days.
    n_eff = pairs_worth(own, later) * (1 - 6 / len(own))
    r = scipy.stats.pearsonr(own, later).statistic
    yield "Pearson r", ours["r"], r
    yield "slope", ours["slope"], scipy.stats.linregress(own, later).slope
    yield "effective n", ours["n_eff"], n_eff
    t = r * np.sqrt((n_eff - 2) / (1 - r * r))
    yield "p of r", ours["p"], 2 * scipy.stats.t.sf(abs(t), n_eff - 2)
    reach = scipy.stats.norm.ppf(0.975) / np.sqrt(n_eff - 3)
    yield "low end of r", ours["r_interval"]["low"], np.tanh(np.arctanh(r) - reach)
    yield "high end of r", ours["r_interval"]["high"], np.tanh(np.arctanh(r) + reach)

    # A regression with a column for each weekday gives the difference that matching on weekdays gives.
    columns = np.column_stack([yes] + [(weekdays(range(n)) == weekday).astype(float) for weekday in range(7)])
    yield "behaviour", found["behaviour"]["difference"], sm.OLS(x, columns).fit().params[0]

    trend = found["trend"]
    if trend["n"] == n:  # no outlier was left out
        slope = scipy.stats.theilslopes(flat_x, np.arange(n)).slope
        yield "Theil-Sen", trend["per_day"], slope

    first, second = flat_x[n // 2 :], flat_x[: n // 2]
    ours = found["periods"]
    welch = scipy.stats.ttest_ind(first, second, equal_var=False)
    parts = [(own.var(ddof=1) / len(own), len(own) - 1) for own in (first, second)]
    of_memory = lambda inflation: judged(first.mean() - second.mean(), n, parts, inflation)["p"]
    yield "Welch p", of_memory(1.0), welch.pvalue
    yield "Welch p with memory", ours["p"], of_memory(n / ours["n_eff"])
    memory = np.clip((n * autocorrelation(flat_x, 1) + 1) / (n - 4), 0, 0.95)
    if trend["n"] == n:  # no outlier was left out
        yield "effective n of periods", ours["n_eff"], sum(effective(len(own), memory) for own in (first, second))
    yield "difference", ours["difference"], first.mean() - second.mean()
    pooled = np.sqrt(((len(first) - 1) * first.var(ddof=1) + (len(second) - 1) * second.var(ddof=1)) / (n - 2))
    yield "Hedges g", ours["hedges_g"], (first.mean() - second.mean()) / pooled * (1 - 3 / (4 * (n - 2) - 1))


def main():
    given = [seeded(seed) for seed in range(SERIES)]
    lines = "".join(json.dumps(one) + "\n" for one in given)
    answer = subprocess.run([sys.argv[1]], input=lines, capture_output=True, text=True, check=True).stdout
    worst, passed, failed = {}, 0, 0
    for seed, (one, line) in enumerate(zip(given, answer.splitlines(), strict=True)):
        for name, ours, theirs in checks(one, json.loads(line)):
            away = abs(ours - theirs) / max(1.0, abs(theirs))
            worst[name] = max(worst.get(name, 0.0), away)
            if away <= TOLERANCES.get(name, TOLERANCE):
                passed += 1
            else:
                failed += 1
                print(f"series {seed}: {name}: {ours} here, {theirs} there")
    for name, away in worst.items():
        print(f"{name}: at most {away:.1e} away")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
