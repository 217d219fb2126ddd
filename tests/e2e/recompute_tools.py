"""The other insight tools recomputed in Python: baselines, HRV status, periods, training load, sleep,
records, blocks, single trends and relations. `checks` yields the name of a number, the number of the binary, and ours.

Series are those of `recompute_survey`, here in the units of the answers: HRV in milliseconds.
"""

import numpy as np
import pandas as pd

import recompute_survey as stats

MAIN = ["recovery", "hrv", "resting_heart_rate", "respiratory_rate", "asleep", "strain", "workout_energy"]
BETTER = {"recovery": 1, "hrv": 1, "resting_heart_rate": -1, "asleep": 1}
SIGNS = ["recovery", "hrv", "resting_heart_rate", "asleep"]
BLOCK = 14
HIGHEST = {"percent": 100, "strain": 21}
PERIODS = {"first": (40, 11), "second": (90, 41)}  # days ago


def date(day):
    return str(pd.Timestamp(int(day), unit="D").date())


def number(text):
    return (pd.Timestamp(text) - pd.Timestamp(0)).days


def asked(today):
    """The calls that `checks` reads, by tool and arguments."""
    span = {f"{which}_{end}": date(today - ago) for which, ends in PERIODS.items() for end, ago in zip(("from", "to"), ends)}
    return [("get_whoop_today", {}), ("get_whoop_review", {"period": "month"}), ("get_whoop_comparison", span),
            *[("get_whoop_trend", {"metric": metric}) for metric in ("hrv", "asleep")],
            *[("get_whoop_baseline", {"metric": metric}) for metric in ("hrv", "recovery")],
            ("get_whoop_relation", {"x": "strain", "y": "recovery", "lag_days": 1}),
            ("get_whoop_training_load", {}), ("get_whoop_sleep_report", {}), ("get_whoop_records", {}),
            ("get_whoop_aggregates", {"metric": "hrv", "block_days": BLOCK})]


def last(series, until, days):
    return series[(series.index > until - days) & (series.index <= until)]


def median_range(series, until, days, unit):
    """A baseline: the median, 1.4826 MAD, and two of them to each side, within what is possible; None with too few days."""
    own = last(series, until, days)
    if len(own) < -(-days // 2):
        return None
    middle = own.median()
    spread = 1.4826 * (own - middle).abs().median()
    low, high = middle - 2 * spread, middle + 2 * spread
    # HRV is judged by its logarithm, which has no bounds.
    return {"n": len(own), "n_eff": stats.effective_mean(own), "median": middle, "spread": spread,
            "low": low if unit == "milliseconds" else max(low, 0), "high": min(high, HIGHEST.get(unit, np.inf))}


def baseline(theirs, series, until, days, unit):
    ours = median_range(series, until, days, unit)
    if ours is None:
        yield "baseline missing", theirs["missing"], -(-days // 2) - len(last(series, until, days))
        return
    yield from compared("baseline", theirs | theirs.get("usual", {}), ours)


def week_state(series, until, is_log):
    """The mean of 7 days against the mean of 60, plus and minus half a standard deviation; None with too few nights."""
    own = np.log(series) if is_log else series
    shown = np.exp if is_log else float
    week, long = last(own, until, 7), last(own, until, 60)
    if len(week) < 3 or len(long) < 30:
        return None
    low, high = long.mean() - long.std() / 2, long.mean() + long.std() / 2
    position = "below" if week.mean() < low else "above" if week.mean() > high else "within"
    cv = 100 * week.std() / week.mean() if is_log and len(week) >= 5 else None
    return {"n_7": len(week), "n": len(long), "n_eff": stats.effective_mean(long), "mean": shown(week.mean()),
            "low": shown(low), "high": shown(high), "position": position, "cv_pct": cv}


def week_range(theirs, series, until, is_log):
    ours = week_state(series, until, is_log)
    if theirs["status"] == "found":
        theirs = theirs | theirs.get("range_ms", theirs.get("range"))
        theirs["mean"] = theirs.get("mean_7_ms", theirs.get("mean_7"))
        ours = ours and {name: own for name, own in ours.items() if name in theirs}
    yield from compared("week", theirs, ours)


def load_state(load):
    """Fitness, fatigue and form after the last day with a load."""
    slow, fast = np.exp(-1 / 42), np.exp(-1 / 7)
    ctl = atl = 0.0
    for own in load:
        ctl, atl = ctl * slow + own * (1 - slow), atl * fast + own * (1 - fast)
    until = load.index[-1]
    week, before = last(load, until, 7), last(load, until - 7, 21)
    known = len(week) >= 5 and len(before) >= 15 and before.mean() > 0
    whole = len(week) == 7
    monotony = week.mean() / week.std() if whole and week.std() > 0 else None
    return {"day": date(until), "n": len(load), "unknown_days": int(until - load.index[0] + 1 - len(load)), "ctl": ctl,
            "atl": atl, "tsb": ctl - atl, "acwr_uncoupled": week.mean() / before.mean() if known else None,
            "week_load": week.sum() if whole else None, "monotony": monotony,
            "week_strain": week.sum() * monotony if monotony is not None else None}


def regularity(spans, first, until):
    """The Sleep Regularity Index by minute, from noon to noon; None with too few nights. `spans` are minutes of UTC with
    nap or not and the minutes east of Greenwich; all count on the clock of the first one."""
    own = sorted(span for span in spans if first * 1440 <= span[1] + span[3] < (until + 1) * 1440)
    own = [(start + own[0][3], end + own[0][3], is_nap) for start, end, is_nap, _ in own]
    asleep = np.zeros(((until - first + 6) * 1440,), bool)
    base = (first - 3) * 1440 + 720
    nights = {}
    for start, end, is_nap in own:
        asleep[start - base:end - base] = True
        day = (start + end) // 2 // 720
        day = (day + 1) // 2
        if not is_nap and end - start > np.subtract(*nights.get(day, (0, 0))[::-1]):
            nights[day] = (start, end)
    pairs = [day for day in sorted(nights) if day + 1 in nights]
    if len(pairs) < 7:
        return None
    at = lambda day: (day - 1) * 1440 + 720 - base
    same = [np.mean(asleep[at(day):at(day) + 1440] == asleep[at(day + 1):at(day + 1) + 1440]) for day in pairs]
    middles = pd.Series({day: ((a + b) // 2 - 720) % 1440 for day, (a, b) in sorted(nights.items())}).astype(float)
    free = np.isin(stats.weekday(middles.index), (5, 6))
    has_both = free.sum() >= 2 and (~free).sum() >= 2
    return {"n": len(nights), "n_eff": stats.effective_mean(middles), "pairs": len(pairs),
            "sri": -100 + 200 * np.mean(same), "mid_sleep_min": (middles.mean() - 720) % 1440,
            "mid_sleep_deviation_min": middles.std(),
            "social_jet_lag_min": abs(middles[free].mean() - middles[~free].mean()) if has_both else None}


def sleep_need(asleep, need, until, days):
    both = pd.DataFrame({"asleep": asleep, "need": need}).dropna()
    both = both[(both.index > until - days) & (both.index <= until)]
    if len(both) < 4:
        return None
    short = both.need - both.asleep
    return {"n": len(both), "n_eff": stats.effective_mean(short), "asleep_min": both.asleep.mean(),
            "need_min": both.need.mean(), "debt_min": short.sum(), "short_per_night_min": short.mean(),
            "nights_below_need": int((short > 0).sum())}


def compared(name, theirs, ours):
    """Each number of an answer, or that both say there is too little data."""
    if ours is None or theirs["status"] != "found":
        yield f"{name} status", theirs["status"], "found" if ours else "not_enough_data"
        return
    yield from ((f"{name} {field}", theirs[field], value) for field, value in ours.items())


def period(theirs, series, first, second):
    """Welch's difference of two periods without weekday means; None with too few days."""
    flat = stats.flat(series)
    a, b = (flat[(flat.index >= start) & (flat.index <= end)] for start, end in (first, second))
    if min(len(a), len(b)) < 5:
        yield "period status", theirs["status"], "not_enough_data"
        return
    n = len(a) + len(b)
    rho = stats.memory(flat)
    inflation = n / (stats.effective(len(a), rho) + stats.effective(len(b), rho))
    ours = stats.judged(a.mean() - b.mean(), n, [(own.var() / len(own), len(own) - 1) for own in (a, b)], inflation)
    pooled = np.sqrt(((len(a) - 1) * a.var() + (len(b) - 1) * b.var()) / (n - 2))
    yield "period n", theirs["n"], n
    yield "period n_eff", theirs["n_eff"], ours["n_eff"]
    yield "period difference", theirs["difference"], ours["size"]
    yield "period low", theirs["interval"]["low"], ours["low"]
    yield "period high", theirs["interval"]["high"], ours["high"]
    yield "p", theirs["p"], ours["p"]
    yield "Hedges g", theirs["hedges_g"], ours["size"] / pooled * (1 - 3 / (4 * (n - 2) - 1))


def best_streak(series, sign):
    """The length of the longest run of days better than the median; of a gap a run ends."""
    good = (sign * series > sign * series.median()).to_numpy()
    longest = run = 0
    for day, own in zip(series.index, good):
        run = run + 1 if own and run and day == before + 1 else int(own)
        before, longest = day, max(longest, run)
    return longest


def blocks(theirs, series, until):
    """Means of whole blocks from a fixed grid of Mondays."""
    grid = (series.index + 3) // BLOCK
    # Blocks of 365 days that ended yesterday.
    inside = series[(grid * BLOCK - 3 >= until - 364) & (grid * BLOCK - 3 + BLOCK - 1 <= until - 1)]
    grouped = inside.groupby((inside.index + 3) // BLOCK).agg(["mean", "size"])
    whole = grouped[grouped["size"] == BLOCK]
    yield "blocks", [own["from"] for own in theirs["blocks"]], [date(own * BLOCK - 3) for own in whole.index]
    for own, mean in zip(theirs["blocks"], whole["mean"]):
        yield "block mean", own["mean"]["value"], mean


def fields(theirs, ours, interval):
    for name in ("n", "n_eff", "p"):
        yield name, theirs[name], ours[name]
    for end in ("low", "high"):
        yield end, theirs[interval][end], ours[end]


def periods(tool, answer):
    """The two periods, in days, that an answer compares."""
    if tool == "get_whoop_comparison":
        return tuple(tuple(map(number, answer[which])) for which in ("first", "second"))
    since, to = number(answer["from"]), number(answer["to"])
    return (since, to), (2 * since - to - 1, since - 1)


def checks(answers, series, spans, today):
    """Every number of the answers to `asked` that has a formula. `series` in the units of the answers."""
    of = lambda tool, metric=None: answers[tool, metric]
    logs = {"hrv": np.log(series["hrv"])}
    now = of("get_whoop_today")
    for own in now["metrics"]:
        newest = last(series[own["metric"]], today, 7)
        yield "newest", [own["day"], own["value"]["value"]], [date(newest.index[-1]), float(newest.iloc[-1])]
        yield from baseline(own["baseline"], series[own["metric"]], newest.index[-1] - 1, 30, own["unit"])
    yield from week_range(now["hrv"], series["hrv"], today, True)
    year = lambda metric: last(series[metric], today, 367)
    load = load_state(year("workout_energy"))
    for answer in (now, of("get_whoop_review")):
        yield from compared("load", answer["training_load"], load)
    yield from compared("load", of("get_whoop_training_load")["load"], load)
    for own in of("get_whoop_training_load")["signs"]:
        yield from week_range(own["week"], series[own["metric"]], number(own["week"].get("to", date(today))), own["metric"] == "hrv")
    sleep = of("get_whoop_sleep_report")
    yield from compared("regularity", sleep["regularity"], regularity(spans, number(sleep["from"]), today))
    need = lambda until, days: sleep_need(series["asleep"], series["sleep_need"], until, days)
    yield from compared("need", sleep["need"], need(today, 30))
    yield from compared("need of 7 days", sleep["need_7_days"], need(today, 7))
    review, comparison = of("get_whoop_review"), of("get_whoop_comparison")
    since, to = number(review["from"]), number(review["to"])
    yield from compared("review regularity", review["sleep"], regularity(spans, since, to))
    yield from compared("review need", review["sleep_need"], need(to, to - since + 1))
    for tool, answer in (("get_whoop_review", review), ("get_whoop_comparison", comparison)):
        for own in answer["metrics"]:
            # A review knows what its last day knew.
            metric = last(year(own["metric"]), to, 999) if answer is review else series[own["metric"]]
            yield from period(own, metric, *periods(tool, answer))
        p = [own["p"] for own in answer["metrics"] if "p" in own]
        found = [own["q"] for own in answer["metrics"] if "p" in own]
        yield from (("q", a, b) for a, b in zip(found, stats.multipletests(p, method="fdr_bh")[1]))
    for metric in ("hrv", "asleep"):
        theirs, ours = of("get_whoop_trend", metric)["trend"], stats.trend(last(series[metric], today, 90))
        yield "slope", theirs["per_30_days"], ours["size"]
        yield from fields(theirs, ours, "per_30_days_interval")
    for metric in ("hrv", "recovery"):
        for theirs, days in zip(of("get_whoop_baseline", metric)["baselines"], (14, 30, 90)):
            yield from baseline(theirs, series[metric], today, days, of("get_whoop_baseline", metric)["unit"])
    theirs = of("get_whoop_relation")["relation"]
    ours = stats.correlation(last(series["strain"], today, 365), last(series["recovery"], today, 365), 1)
    yield "r", theirs["r"], ours["size"]
    yield from fields(theirs, ours, "r_interval")
    for own in of("get_whoop_records")["records"]:
        metric = series[own["metric"]]
        yield "record n", own["n"], len(metric)
        yield "highest", own["highest"]["value"], metric.max()
        yield "lowest", own["lowest"]["value"], metric.min()
        if own["metric"] in BETTER:
            yield "streak", own["streaks"]["longest"]["days"], best_streak(metric, BETTER[own["metric"]])
    yield from blocks(of("get_whoop_aggregates", "hrv"), series["hrv"], today)


