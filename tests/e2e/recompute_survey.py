"""A second survey in Python: every look that `get_whoop_drivers` makes, recomputed from the raw records with pandas,
SciPy, statsmodels and pymannkendall, from the formulas of decision 45 and `crates/insights`.

A series is a `pandas.Series` of values by day (days since 1970); a missing day is not in it.
"""

import numpy as np
import pandas as pd
import pymannkendall
import scipy.stats
from statsmodels.stats.multitest import multipletests

JET_LAG = "days after a change of time zone"
LOGS = {"hrv"}
LOOKED_AT = ["recovery", "hrv", "resting_heart_rate", "respiratory_rate", "asleep", "strain", "workout_energy",
             "skin_temperature", "bedtime"]
VITALS = ["hrv", "resting_heart_rate", "respiratory_rate", "skin_temperature"]
OUTCOMES = ["recovery", "hrv", "resting_heart_rate", "asleep"]
PAIRS = [("asleep", "recovery", 0), ("asleep", "hrv", 0), ("asleep", "resting_heart_rate", 0), ("bedtime", "recovery", 0),
         ("bedtime", "hrv", 0), ("strain", "recovery", 1), ("strain", "hrv", 1), ("strain", "resting_heart_rate", 1),
         ("strain", "asleep", 1), ("workout_energy", "recovery", 1), ("workout_energy", "hrv", 1)]
FALSE_MAX = 0.03
TREND_DAYS = 90
SEGMENT_MIN = 14
# How much of a standard deviation's precision the median absolute deviation has; the variance of a median of normal
# values, in that of their mean; of a normal distribution without what is beyond 2.5 deviations.
MAD_EFFICIENCY, MEDIAN_VARIANCE, ORDINARY_VARIANCE = 0.37, 1.57, 0.911
# The 99 % quantile of Bai's distribution of an estimated day.
DAY_QUANTILE = 19.77
WELCH_MIN, NIGHTS_MIN, WIDER_P = 14, 5, 0.05

t_reach = lambda freedom: scipy.stats.t.ppf(0.975, freedom)
t_p = lambda t, freedom: 2 * scipy.stats.t.sf(abs(t), freedom)


def weekday(days):
    return (np.asarray(days) + 3) % 7  # 1970-01-01 was a Thursday


def knows_weekdays(series):
    return np.bincount(weekday(series.index), minlength=7).min() >= 4


def flat(series):
    """Without weekday means, where every weekday was seen four times."""
    if not knows_weekdays(series):
        return series
    return series - series.groupby(weekday(series.index)).transform("mean") + series.mean()


def on_grid(series):
    """The values on every day from the first to the last, NaN where there is none."""
    return series.reindex(range(series.index[0], series.index[-1] + 1)).to_numpy()


def autocorrelation(series, lag):
    grid = on_grid(series) - series.mean()
    products = grid[:-lag] * grid[lag:]
    products = products[~np.isnan(products)]
    return float(np.clip(products.mean() / series.var(), -1, 1)) if len(products) else 0.0


def without_outliers(series):
    """Without the days that are far from the running median of four weeks."""
    days, values = series.index.to_numpy(), series.to_numpy()
    first, last = np.searchsorted(days, days - 14), np.searchsorted(days, days + 14, side="right")
    away = values - [np.median(values[a:b]) for a, b in zip(first, last)]
    spread = 1.4826 * scipy.stats.median_abs_deviation(away)
    return series if spread < 1e-9 else series[np.abs(away) <= 2.5 * spread]


def memory(series):
    """The autocorrelation of ordinary days, corrected for the bias of short series."""
    n = len(series)
    return 0.0 if n < 10 else float(np.clip((n * autocorrelation(without_outliers(series), 1) + 1) / (n - 4), 0, 0.95))


def effective_mean(series):
    return effective(len(series), memory(series))


def effective(n, rho):
    return min(max(n * (1 - rho) / (1 + rho), 1), n)


def effective_pairs(x, y):
    """How many independent pairs two series on the same days are worth."""
    n = len(x)
    product = np.clip(autocorrelation(x, 1) * autocorrelation(y, 1), -0.99, 0.99)
    total = sum((1 - k / n) * autocorrelation(x, k) * autocorrelation(y, k) for k in range(1, 31) if k <= n / 5)
    return max(1, min(n * (1 - product) / (1 + product), n / max(1 + 2 * total, 1e-3), n))


def correlation(x, y, lag):
    means = 6 if knows_weekdays(x) or knows_weekdays(y) else 0
    x, y = flat(x), flat(y)
    days = x.index[x.index.isin(y.index - lag)]
    if len(days) < 20:
        return None
    x, y = x.loc[days], pd.Series(y.loc[days + lag].to_numpy(), index=days)
    n = len(days)
    n_eff = max(effective_pairs(x, y) * (1 - means / n), 1)
    r = scipy.stats.pearsonr(x, y).statistic
    freedom = max(n_eff - 2, 1)
    p = t_p(r * np.sqrt(freedom / (1 - r * r)), freedom)
    reach = scipy.stats.norm.ppf(0.975) / np.sqrt(max(n_eff - 3, 0.5))
    low, high = np.tanh(np.arctanh(r) - reach), np.tanh(np.arctanh(r) + reach)
    return {"n": n, "n_eff": n_eff, "size": r, "p": p, "low": low, "high": high}


def behaviour(outcome, answers, lag):
    """The difference of the sides within weekdays, weighted over the weekdays that have both."""
    days = answers.index[answers.index.isin(outcome.index - lag)]
    table = pd.DataFrame({"yes": answers.loc[days], "value": outcome.loc[days + lag].to_numpy(), "weekday": weekday(days)})
    yes, no = table.value[table.yes == 1], table.value[table.yes == 0]
    if min(len(yes), len(no)) < NIGHTS_MIN:
        return None
    rest = pd.Series((table.value - table.groupby("yes").value.transform("mean")).to_numpy(), index=days)
    inflation = len(days) / effective_pairs(flat(answers.loc[days]), flat(rest))
    if not knows_weekdays(answers.loc[days]):
        parts = [(own.var() / len(own), len(own) - 1) for own in (yes, no)]
        return judged(yes.mean() - no.mean(), len(yes) + len(no), parts, inflation)
    sides = table.groupby(["weekday", "yes"])["value"].agg(["mean", "size"]).unstack()
    both = sides.dropna()
    a, b = both["size"][1.0].to_numpy(), both["size"][0.0].to_numpy()
    if min(a.sum(), b.sum()) < NIGHTS_MIN:
        return None
    weights = a * b / (a + b)
    size = (weights * (both["mean"][1.0] - both["mean"][0.0])).sum() / weights.sum()
    inside = table[table.weekday.isin(both.index)]
    squares = (inside.value - inside.groupby(["weekday", "yes"]).value.transform("mean")) ** 2
    squares = [squares[inside.yes == own].sum() for own in (1, 0)]
    of_weights = [(weights**2 / own).sum() / weights.sum() ** 2 for own in (a, b)]
    freedoms = [own.sum() - len(both) for own in (a, b)]
    spreads = [square / max(free, 1) for square, free in zip(squares, freedoms)]
    small, large = (0, 1) if a.sum() <= b.sum() else (1, 0)
    wider = scipy.stats.f.sf(spreads[small] / spreads[large], freedoms[small], freedoms[large])
    if min(a.sum(), b.sum()) >= WELCH_MIN and wider < WIDER_P:
        parts = [(square / max(free, 1) * part, free) for square, free, part in zip(squares, freedoms, of_weights)]
    else:  # one spread for both sides
        parts = [(sum(squares) / max(sum(freedoms), 1) * sum(of_weights), sum(freedoms))]
    return judged(size, int(a.sum() + b.sum()), parts, inflation)


def judged(size, n, parts, inflation):
    """The interval and p of a difference from (variance, degrees of freedom) of its parts, after Welch."""
    of_spread = (inflation + 1 / inflation) / 2
    parts = [(variance * inflation, max(freedom / of_spread, 1)) for variance, freedom in parts]
    variance = sum(own for own, _ in parts)
    freedom = max(variance**2 / sum(own**2 / free for own, free in parts), 1)
    reach = t_reach(freedom) * np.sqrt(variance)
    return {"n": n, "n_eff": n / inflation, "size": size, "p": t_p(size / np.sqrt(variance), freedom),
            "low": size - reach, "high": size + reach}


def jet_lag(offsets):
    """One for nights within five days of a change of the clock by three hours or more."""
    flights = offsets.index[offsets.diff().abs() >= 180]
    return pd.Series({day: float(any(0 <= day - flight < 5 for flight in flights)) for day in offsets.index})


def biased(values, lag):
    away = values - values.mean()
    return (away[lag:] * away[:-lag]).sum() / (away**2).sum()


def trend(series):
    """Theil and Sen's slope over 30 days; Mann and Kendall's test with the larger of two corrections for memory."""
    own = without_outliers(flat(series))
    n = len(own)
    if n < 21:
        return None
    days, values = own.index.to_numpy(float), own.to_numpy()
    slope = scipy.stats.theilslopes(values, days).slope
    rest = values - slope * days
    ranks = scipy.stats.rankdata(rest)
    bound = scipy.stats.norm.ppf(0.975) / np.sqrt(n)
    significant = [(n - k) * (n - k - 1) * (n - k - 2) * biased(ranks, k) for k in range(1, 11) if abs(biased(ranks, k)) > bound]
    hamed_rao = 1 + 2 / (n * (n - 1) * (n - 2)) * sum(significant)
    rho = np.clip((n * biased(rest, 1) + 2) / (n - 5), 0, 0.95)
    inflation = max(1, hamed_rao, (1 + rho) / (1 - rho))
    plain = pymannkendall.original_test(values)
    variance = plain.var_s * inflation
    n_eff = min(n / inflation, n)
    p = t_p((plain.s - np.sign(plain.s)) / np.sqrt(variance), max(n_eff - 2, 1))
    at, later = np.triu_indices(n, 1)
    slopes = np.sort((values[later] - values[at]) / (days[later] - days[at]))
    reach = scipy.stats.norm.ppf(0.975) * np.sqrt(variance)
    rank = lambda own: slopes[int(np.clip(np.floor(own + 0.5), 0, len(slopes) - 1))]
    return {"from": own.index[0], "to": own.index[-1], "n": n, "n_eff": n_eff, "size": 30 * slope, "p": p,
            "low": 30 * rank((len(slopes) - reach) / 2 - 1), "high": 30 * rank((len(slopes) + reach) / 2)}


def best_breaks(values, penalty):
    """The segmentation of least squared error plus penalty, by trying every start of every segment."""
    sums, squares = np.r_[0, np.cumsum(values - values.mean())], np.r_[0, np.cumsum((values - values.mean()) ** 2)]
    n = len(values)
    best, before = np.full(n + 1, np.inf), np.zeros(n + 1, int)
    best[0] = -penalty
    for end in range(SEGMENT_MIN, n + 1):
        starts = np.arange(0, end - SEGMENT_MIN + 1)
        costs = best[starts] + squares[end] - squares[starts] - (sums[end] - sums[starts]) ** 2 / (end - starts)
        before[end] = costs.argmin()
        best[end] = costs.min() + penalty
    breaks, end = [], before[n]
    while end > 0:
        breaks.append(int(end))
        end = before[end]
    return breaks[::-1]


def change_points(series):
    """The changes of level; None with too few nights."""
    whole = flat(series)
    own = without_outliers(whole)
    n = len(own)
    if n < 2 * SEGMENT_MIN:
        return None
    grid = on_grid(own)
    one, two, three = (np.nanmean((grid[k:] - grid[:-k]) ** 2 / 2) for k in (1, 2, 3))
    rho = max(two / one - 1, np.sqrt(max(three / one - 0.75, 0)) - 0.5) + 2 / n
    rho = np.clip(rho, 0, 0.9)
    variance = one / (1 - rho) / ORDINARY_VARIANCE
    long_run = variance * (1 + rho) / (1 - rho)
    worth = min(variance / long_run, 1)
    days = [own.index[at] for at in best_breaks(own.to_numpy(), 3 * long_run * np.log(n))]
    edges = [whole.index[0], *days, whole.index[-1] + 1]
    segments = [whole[(whole.index >= a) & (whole.index < b)] for a, b in zip(edges, edges[1:])]
    positions = (len(whole) - 2 * SEGMENT_MIN + 1) * len(whole) / SEGMENT_MIN
    freedom, found = max(worth * n - 2, 1), []
    for day, a, b in zip(days, segments, segments[1:]):
        size, error = b.mean() - a.mean(), np.sqrt(long_run * (1 / len(a) + 1 / len(b)))
        around = next((k for k in range(1, SEGMENT_MIN) if k >= DAY_QUANTILE * long_run / size**2), SEGMENT_MIN)
        found.append({"from": day - around, "to": day + around, "n": len(a) + len(b), "n_eff": (len(a) + len(b)) * worth,
                      "size": size, "p": min(t_p(size / error, freedom) * positions, 1),
                      "low": size - t_reach(freedom) * error, "high": size + t_reach(freedom) * error})
    return found


def episodes(series, since, until):
    """Runs of nights far from the median of the 90 days before; None where no night has such a median."""
    own = flat(series)
    days, values = own.index.to_numpy(), own.to_numpy()
    first = np.searchsorted(days, days - 90)
    nights = [(day, value, np.median(values[a:at]), at - a) for at, (day, value, a) in enumerate(zip(days, values, first))
              if at - a >= 30 and since <= day <= until]
    if not nights:
        return None
    away = np.array([value - middle for _, value, middle, _ in nights])
    spread = 1.4826 * scipy.stats.median_abs_deviation(away)
    runs = []
    for night, off in zip(nights, away):
        if abs(off) >= 2 * spread:
            if runs and np.sign(runs[-1][-1][1]) == np.sign(off) and night[0] - runs[-1][-1][0][0] <= 2:
                runs[-1].append((night, off))
            else:
                runs.append([(night, off)])
    rho = memory(own)
    freedom = max(MAD_EFFICIENCY * (len(nights) * (1 - rho**2) / (1 + rho**2) - 1), 2)
    found = []
    for run in (own for own in runs if len(own) <= 21):
        (begin, _, baseline, before), n = run[0][0], len(run)
        size, worth = np.mean([night[1] for night, _ in run]) - baseline, before * (1 - rho) / (1 + rho)
        of_nights = (n + sum(2 * (n - k) * rho**k for k in range(1, n))) / n**2
        error = spread * np.sqrt(of_nights + MEDIAN_VARIANCE / worth)
        alone, reach = t_p(size / error, freedom), t_reach(freedom) * error
        found.append({"from": begin, "to": run[-1][0][0], "n": n, "n_eff": worth, "size": size, "alone": alone,
                      "p": min(alone * len(nights), 1), "low": size - reach, "high": size + reach})
    return found


def with_support(vitals):
    """Episodes that another vital shows on the same nights need less evidence of their own."""
    for metric, found in vitals.items():
        for own in found:
            others = [other["p"] for name, more in vitals.items() if name != metric for other in more
                      if other["from"] <= own["to"] and own["from"] <= other["to"]]
            supported = max(min(others, default=1), 7 * own["alone"])
            yield metric, own | {"p": min(2 * min(own["p"], supported), 1)}


def survey(whole, answers, since, until):
    """All looks from `since` to `until`, each with its q; those with too little data are left out."""
    looks, silent = [], 0
    series = {metric: own[(own.index >= since) & (own.index <= until)] for metric, own in whole.items()}
    add = lambda kind, metric, found, **more: looks.append({"kind": kind, "metric": metric, "other": None} | more | found)
    for metric in LOOKED_AT:
        found = trend(series[metric][series[metric].index > until - TREND_DAYS])
        if found:
            add("trend", metric, found)
        found = change_points(series[metric])
        silent += found == []
        for own in found or []:
            add("change_point", metric, own)
    vitals = {metric: episodes(whole[metric], since, until) for metric in VITALS}
    silent += sum(found == [] for found in vitals.values())
    for metric, own in with_support({metric: found for metric, found in vitals.items() if found}):
        add("anomaly", metric, own)
    span = lambda metric: {"from": series[metric].index[0], "to": series[metric].index[-1]}
    for question, given in answers.items():
        for metric in OUTCOMES:
            lag = 0 if question == JET_LAG else 1
            found = behaviour(series[metric], given, lag)
            if found:
                add("behaviour", metric, found | span(metric), other=question, lag_days=lag)
    for x, y, lag in PAIRS:
        found = correlation(series[x], series[y], lag)
        if found:
            add("correlation", y, found | span(x), other=x, lag_days=lag)
    p = [look["p"] for look in looks] + [1.0] * silent
    for look, q in zip(looks, multipletests(p, method="fdr_bh")[1]):
        look["q"] = q
        if look["metric"] in LOGS and look["kind"] != "correlation":
            look |= {name: 100 * (np.exp(look[name]) - 1) for name in ("size", "low", "high")}
    return looks, len(p)


def best_nights(series, answers, since, until):
    """The best quarter of the nights by recovery against the others, with q among these looks."""
    nights = series["recovery"]
    nights = nights[(nights.index >= since) & (nights.index <= until)]
    threshold = np.sort(nights.to_numpy())[len(nights) * 3 // 4]
    best = (nights >= threshold).astype(float)
    traits = {x: (series[x], lag) for x, y, lag in PAIRS if y == "recovery"}
    traits |= {question: (given, 0 if question == JET_LAG else 1) for question, given in answers.items()}
    found = {name: behaviour(own, best, -lag) for name, (own, lag) in traits.items()}
    found = {name: own for name, own in found.items() if own}
    for own, q in zip(found.values(), multipletests([own["p"] for own in found.values()], method="fdr_bh")[1]):
        own["q"] = q
    return {"threshold": threshold, "n_best": int(best.sum()), "n": len(nights)}, found
