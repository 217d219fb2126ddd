"""The other insight tools and the report recomputed in Python: baselines, HRV status, periods, training load, sleep,
records, blocks, single trends and relations. `checks` yields the name of a number, the number of the binary, and ours.

Series are those of `recompute_survey`, here in the units of the answers: HRV in milliseconds.
"""

import html
import re

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


def median_range(theirs, series, until, days, unit):
    """A baseline: the median, 1.4826 MAD, and two of them to each side, within what is possible."""
    own = last(series, until, days)
    if len(own) < -(-days // 2):
        yield "baseline status", theirs["status"], "not_enough_data"
        yield "baseline missing", theirs["missing"], -(-days // 2) - len(own)
        return
    middle = own.median()
    spread = 1.4826 * (own - middle).abs().median()
    yield "baseline n", theirs["n"], len(own)
    yield "baseline n_eff", theirs["n_eff"], stats.effective_mean(own)
    yield "baseline median", theirs["median"], middle
    yield "baseline spread", theirs["spread"], spread
    low, high = middle - 2 * spread, middle + 2 * spread
    # HRV is judged by its logarithm, which has no bounds.
    yield "usual low", theirs["usual"]["low"], low if unit == "milliseconds" else max(low, 0)
    yield "usual high", theirs["usual"]["high"], min(high, HIGHEST.get(unit, np.inf))


def week_range(theirs, series, until, is_log):
    """The mean of 7 days against the mean of 60, plus and minus half a standard deviation."""
    own = np.log(series) if is_log else series
    shown = np.exp if is_log else float
    week, long = last(own, until, 7), last(own, until, 60)
    if len(week) < 3 or len(long) < 30:
        yield "week status", theirs["status"], "not_enough_data"
        return
    is_hrv = "mean_7_ms" in theirs
    low, high = long.mean() - long.std() / 2, long.mean() + long.std() / 2
    found = theirs["range_ms" if is_hrv else "range"]
    yield "week mean", theirs["mean_7_ms" if is_hrv else "mean_7"], shown(week.mean())
    yield "week low", found["low"], shown(low)
    yield "week high", found["high"], shown(high)
    yield "week n", [theirs["n_7"], theirs["n"]], [len(week), len(long)]
    yield "week n_eff", theirs["n_eff"], stats.effective_mean(long)
    yield "week position", theirs["position"], "below" if week.mean() < low else "above" if week.mean() > high else "within"
    if is_hrv and len(week) >= 5:
        yield "HRV CV", theirs["cv_pct"], 100 * week.std() / week.mean()


def training_load(theirs, load):
    slow, fast = np.exp(-1 / 42), np.exp(-1 / 7)
    ctl = atl = 0.0
    for own in load:
        ctl, atl = ctl * slow + own * (1 - slow), atl * fast + own * (1 - fast)
    until = load.index[-1]
    week, before = last(load, until, 7), last(load, until - 7, 21)
    yield "load day", theirs["day"], date(until)
    yield "load n", [theirs["n"], theirs["unknown_days"]], [len(load), until - load.index[0] + 1 - len(load)]
    yield "CTL", theirs["ctl"], ctl
    yield "ATL", theirs["atl"], atl
    yield "TSB", theirs["tsb"], ctl - atl
    if len(week) >= 5 and len(before) >= 15 and before.mean() > 0:
        yield "ACWR uncoupled", theirs["acwr_uncoupled"], week.mean() / before.mean()
    if len(week) == 7 and week.std() > 0:
        yield "monotony", theirs["monotony"], week.mean() / week.std()
        yield "week strain", theirs["week_strain"], week.sum() * week.mean() / week.std()


def regularity(theirs, spans, first, until):
    """The Sleep Regularity Index by minute, from noon to noon; `spans` are minutes on one clock, with nap or not."""
    own = [span for span in spans if first * 1440 <= span[1] < (until + 1) * 1440]
    asleep = np.zeros(((until - first + 4) * 1440,), bool)
    base = (first - 2) * 1440 + 720
    nights = {}
    for start, end, is_nap in own:
        asleep[start - base:end - base] = True
        day = (start + end) // 2 // 720
        day = (day + 1) // 2
        if not is_nap and end - start > np.subtract(*nights.get(day, (0, 0))[::-1]):
            nights[day] = (start, end)
    pairs = [day for day in sorted(nights) if day + 1 in nights]
    if len(pairs) < 7:
        yield "SRI status", theirs["status"], "not_enough_data"
        return
    at = lambda day: (day - 1) * 1440 + 720 - base
    same = [np.mean(asleep[at(day):at(day) + 1440] == asleep[at(day + 1):at(day + 1) + 1440]) for day in pairs]
    middles = pd.Series({day: ((a + b) // 2 - 720) % 1440 for day, (a, b) in sorted(nights.items())}).astype(float)
    free = np.isin(stats.weekday(middles.index), (5, 6))
    yield "SRI", theirs["sri"], -100 + 200 * np.mean(same)
    yield "SRI n", [theirs["n"], theirs["pairs"]], [len(nights), len(pairs)]
    yield "mid-sleep", theirs["mid_sleep_min"], (middles.mean() - 720) % 1440
    yield "mid-sleep SD", theirs["mid_sleep_deviation_min"], middles.std()
    if free.sum() >= 2 and (~free).sum() >= 2:
        yield "social jet lag", theirs["social_jet_lag_min"], abs(middles[free].mean() - middles[~free].mean())


def sleep_need(theirs, asleep, need, until, days):
    short = (need - asleep).dropna()
    short = last(short, until, days)
    if len(short) < 4:
        return
    yield "need n", theirs["n"], len(short)
    yield "need n_eff", theirs["n_eff"], stats.effective_mean(short)
    yield "sleep debt", theirs["debt_min"], short.sum()
    yield "short per night", theirs["short_per_night_min"], short.mean()
    yield "nights below need", theirs["nights_below_need"], int((short > 0).sum())


def period(theirs, series, first, second):
    """Welch's difference of two periods without weekday means; None with too few days."""
    flat = stats.flat(series)
    a, b = (flat[(flat.index >= start) & (flat.index <= end)] for start, end in (first, second))
    if min(len(a), len(b)) < 5:
        yield "period status", theirs["status"], "not_enough_data"
        return
    n = len(a) + len(b)
    inflation = n / (stats.effective_mean(a) + stats.effective_mean(b))
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


def checks(answers, series, spans, today):
    """Every number of the answers to `asked` that has a formula. `series` in the units of the answers."""
    of = lambda tool, metric=None: answers[tool, metric]
    logs = {"hrv": np.log(series["hrv"])}
    now = of("get_whoop_today")
    for own in now["metrics"]:
        newest = last(series[own["metric"]], today, 7)
        yield "newest", [own["day"], own["value"]["value"]], [date(newest.index[-1]), float(newest.iloc[-1])]
        yield from median_range(own["baseline"], series[own["metric"]], newest.index[-1] - 1, 30, own["unit"])
    yield from week_range(now["hrv"], series["hrv"], today, True)
    year = lambda metric: last(series[metric], today, 367)
    yield from training_load(now["training_load"], year("workout_energy"))
    for own in of("get_whoop_training_load")["signs"]:
        yield from week_range(own["week"], series[own["metric"]], number(own["week"].get("to", date(today))), own["metric"] == "hrv")
    sleep = of("get_whoop_sleep_report")
    yield from regularity(sleep["regularity"], spans, number(sleep["from"]), today)
    yield from sleep_need(sleep["need"], series["asleep"], series["sleep_need"], today, 30)
    yield from sleep_need(sleep["need_7_days"], series["asleep"], series["sleep_need"], today, 7)
    review, comparison = of("get_whoop_review"), of("get_whoop_comparison")
    to = number(review["to"])
    spans_of = {"review": ((to - 29, to), (to - 59, to - 30))}
    spans_of["comparison"] = tuple(tuple(today - ago for ago in PERIODS[which]) for which in ("first", "second"))
    for name, answer in (("review", review), ("comparison", comparison)):
        for own in answer["metrics"]:
            metric = year(own["metric"]) if name == "review" else series[own["metric"]]
            yield from period(own, metric, *spans_of[name])
        p = [own["p"] for own in answer["metrics"] if "p" in own]
        found = [own["q"] for own in answer["metrics"] if "p" in own]
        yield from (("q", a, b) for a, b in zip(found, stats.multipletests(p, method="fdr_bh")[1]))
    for metric in ("hrv", "asleep"):
        theirs, ours = of("get_whoop_trend", metric)["trend"], stats.trend(last(series[metric], today, 90))
        yield "slope", theirs["per_30_days"], ours["size"]
        yield from fields(theirs, ours, "per_30_days_interval")
    for metric in ("hrv", "recovery"):
        for theirs, days in zip(of("get_whoop_baseline", metric)["baselines"], (14, 30, 90)):
            yield from median_range(theirs, series[metric], today, days, of("get_whoop_baseline", metric)["unit"])
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


REPORTED = {"Recovery": "recovery", "HRV": "hrv", "Resting heart rate": "resting_heart_rate", "Time asleep": "asleep",
            "Respiratory rate": "respiratory_rate"}


def report_checks(page, series, answers):
    """The days in the report's tables and the number of its claims and looks, against the raw records."""
    text = html.unescape(page)
    looks, since, until = re.search(r"(\d+) looks at the data from (\S+) to (\S+)\.", text).groups()
    tested = series | {"hrv": np.log(series["hrv"])}
    again, count = stats.survey(tested, answers, number(since), number(until))
    yield "report looks", int(looks), count
    said = text.split("<h2>What the data says</h2>")[1].split('<p class="soft">')[0]
    yield "report claims", said.count("<li>"), sum(look["q"] <= stats.FALSE_MAX for look in again)
    by_day = text.split("<h2>By day</h2>")[1].split("</section>")[0]
    for title, metric in REPORTED.items():
        table = by_day.split(f"Data of {title}<")[1].split("</table>")[0]
        rows = re.findall(r"<td>(\d{4}-\d\d-\d\d)</td><td>([^<]*)</td>", table)
        yield f"report days of {title}", len(rows) > 25, True
        for day, shown in rows:
            parts = [float(own) for own in re.findall(r"[\d.]+", shown)]
            value = 60 * parts[0] + parts[1] if " h " in shown else parts[0]
            decimals = len(shown.split(".")[1].split()[0]) if "." in shown else 0
            yield f"report {title} {day}", bool(abs(value - series[metric][number(day)]) <= 0.51 * 10**-decimals), True
