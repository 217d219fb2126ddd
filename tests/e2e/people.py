"""Judges the insights of seeded sandbox people: planted effects, false claims, and every claim recomputed.

Usage: people.py TOLLGATE PEOPLE [FIRST_SEED]. For each seed a sandbox WHOOP has one person with a planted effect
of known size, or none (`tollgate sandbox whoop --planted`). The real binary connects, imports the journal, syncs
and answers `get_whoop_drivers`. The claims are then recomputed here from the records that the sandbox served,
with pandas, SciPy and ruptures, and compared with what was planted.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import ruptures
import scipy.stats

DAYS = 365
QUESTIONS = {"late_caffeine": "late caffeine", "read_in_bed": "read in bed", "alcohol": "alcohol"}
JET_LAG = "days after a change of time zone"
# Strain is made from the load, so an effect on the load is one on the strain.
SAME_CAUSE = {"strain": "workout_energy"}
LOGS = {"hrv"}
# How much of a standard deviation's precision the median absolute deviation has.
MAD_EFFICIENCY = 0.37
# The variance of a median of normal values, in that of their mean.
MEDIAN_VARIANCE = 1.57
FOUND_MIN, FALSE_MAX = 0.90, 0.05


def run(tollgate, environment, *arguments, text=None):
    done = subprocess.run([tollgate, *arguments], env=environment, input=text, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)}: {done.stdout}{done.stderr}")
    return done.stdout


def journal(planted):
    """The journal of WHOOP's own export, as a ZIP."""
    out = io.StringIO()
    rows = csv.writer(out)
    rows.writerow(["Cycle start time", "Cycle end time", "Cycle timezone", "Question text", "Answered yes", "Notes"])
    for day in planted["days"]:
        if not day["is_recorded"]:
            continue
        date = pd.Timestamp(day["number"], unit="D")
        start, end = date - pd.Timedelta(hours=1), date + pd.Timedelta(hours=23)
        for field, question in QUESTIONS.items():
            rows.writerow([start.strftime("%F %T"), end.strftime("%F %T"), f"UTC{day['offset_h']:+03}:00", question,
                           str(day[field]).lower(), ""])
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as packed:
        packed.writestr("journal_entries.csv", out.getvalue())
    return archive.getvalue()


def claims_of(tollgate, environment):
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "judge", "version": "1"}}}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call",
            "params": {"name": "get_whoop_drivers", "arguments": {"days": DAYS}}}
    lines = [hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}, call]
    said = run(tollgate, environment, "stdio", "whoop", text="".join(json.dumps(line) + "\n" for line in lines))
    answers = [json.loads(line) for line in said.splitlines()]
    return next(answer for answer in answers if answer.get("id") == 1)["result"]["structuredContent"]


def person(tollgate, seed):
    """What was planted, what the sandbox served, and what the binary claims."""
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "TOLLGATE_HOME": f"{folder}/home", "NO_COLOR": "1", "TZ": "UTC",
                       "TOLLGATE_LOG": "error"}
        arguments = ["sandbox", "whoop", "--planted", "--unlimited", "--seed", str(seed), "--days", str(DAYS)]
        sandbox = subprocess.Popen([tollgate, *arguments], env=environment, stdout=subprocess.PIPE, text=True)
        try:
            ready = json.loads(sandbox.stdout.readline())
            environment |= {"WHOOP_API_BASE_URL": ready["url"], "WHOOP_OAUTH_BASE_URL": ready["url"],
                            "WHOOP_CLIENT_ID": ready["client_id"], "WHOOP_CLIENT_SECRET": ready["client_secret"]}
            tokens, archive = Path(folder, "tokens.json"), Path(folder, "export.zip")
            tokens.write_text(json.dumps(ready["tokens"]))
            archive.write_bytes(journal(ready["planted"]))
            run(tollgate, environment, "connect", "whoop", "--tokens", str(tokens))
            run(tollgate, environment, "import", "whoop", str(archive))
            run(tollgate, environment, "sync", "whoop", "--full")
            raw = {}
            for kind in ("cycle", "sleep", "recovery", "workout"):
                with urllib.request.urlopen(f"{ready['control']}/records/{kind}", timeout=60) as answer:
                    raw[kind] = json.load(answer)
            return ready["planted"], raw, claims_of(tollgate, environment)
        finally:
            sandbox.terminate()
            sandbox.wait()


def local_day(instant, offset):
    sign = -1 if offset[0] == "-" else 1
    minutes = sign * (int(offset[1:3]) * 60 + int(offset[4:6]))
    local = pd.Timestamp(instant).tz_convert("UTC") + pd.Timedelta(minutes=minutes)
    return (local.tz_localize(None).normalize() - pd.Timestamp(0)).days, minutes


def series_of(raw):
    """The metrics by local day, from the raw records."""
    values, offsets, days = {}, {}, {}
    put = lambda metric, day, value: values.setdefault(metric, {}).__setitem__(day, value)
    for sleep in raw["sleep"]:
        day, offsets_min = local_day(sleep["end"], sleep["timezone_offset"])
        days[sleep["cycle_id"]], offsets[day] = day, offsets_min
        stages = sleep["score"]["stage_summary"]
        asleep_ms = sum(stages[f"total_{stage}_time_milli"] for stage in ("light_sleep", "slow_wave_sleep", "rem_sleep"))
        put("asleep", day, asleep_ms / 60_000)
        put("respiratory_rate", day, sleep["score"]["respiratory_rate"])
        began = pd.Timestamp(sleep["start"]) + pd.Timedelta(minutes=offsets_min)
        # 22:30 is −90 and 00:30 is 30.
        put("bedtime", day, (began.hour * 60 + began.minute - 720) % 1440 - 720)
    for recovery in raw["recovery"]:
        day, score = days[recovery["cycle_id"]], recovery["score"]
        put("recovery", day, score["recovery_score"])
        put("hrv", day, np.log(score["hrv_rmssd_milli"]))
        put("resting_heart_rate", day, score["resting_heart_rate"])
        put("skin_temperature", day, score["skin_temp_celsius"])
    trained = {}
    for workout in raw["workout"]:
        day, _ = local_day(workout["start"], workout["timezone_offset"])
        trained[day] = trained.get(day, 0) + workout["score"]["kilojoule"]
    for cycle in raw["cycle"]:
        if cycle["end"]:
            day = days[cycle["id"]]
            put("strain", day, cycle["score"]["strain"])
            put("workout_energy", day, trained.get(day, 0))
    series = {metric: pd.Series(own).sort_index() for metric, own in values.items()}
    return series, pd.Series(offsets).sort_index()


def weekday(days):
    return (np.asarray(days) + 3) % 7  # 1970-01-01 was a Thursday


def flat(series):
    """Without weekday means, where every weekday was seen four times."""
    if series.groupby(weekday(series.index)).size().reindex(range(7), fill_value=0).min() < 4:
        return series
    return series - series.groupby(weekday(series.index)).transform("mean") + series.mean()


def autocorrelation(series, lag):
    away = series - series.mean()
    both = away.index.intersection(away.index - lag)
    products = away.loc[both].to_numpy() * away.loc[both + lag].to_numpy()
    return float(np.clip(products.mean() / series.var(), -1, 1)) if len(products) else 0.0


def effective_pairs(x, y):
    """How many independent pairs two series on the same days are worth."""
    n = len(x)
    product = np.clip(autocorrelation(x, 1) * autocorrelation(y, 1), -0.99, 0.99)
    total = sum((1 - k / n) * autocorrelation(x, k) * autocorrelation(y, k) for k in range(1, 31) if k <= n / 5)
    return max(1, min(n * (1 - product) / (1 + product), n / max(1 + 2 * total, 1e-3), n))


def correlation(x, y, lag):
    x, y = flat(x), flat(y)
    days = x.index[x.index.isin(y.index - lag)]
    x, y = x.loc[days], pd.Series(y.loc[days + lag].to_numpy(), index=days)
    n, n_eff = len(days), effective_pairs(x, y)
    r = scipy.stats.pearsonr(x, y).statistic
    t = r * np.sqrt((n_eff - 2) / (1 - r * r))
    reach = scipy.stats.norm.ppf(0.975) / np.sqrt(max(n_eff - 3, 0.5))
    low, high = np.tanh(np.arctanh(r) - reach), np.tanh(np.arctanh(r) + reach)
    return {"n": n, "n_eff": n_eff, "size": r, "p": 2 * scipy.stats.t.sf(abs(t), n_eff - 2), "low": low, "high": high}


def behaviour(outcome, answers, lag):
    """The difference of the sides within weekdays, weighted over the weekdays that have both."""
    days = answers.index[answers.index.isin(outcome.index - lag)]
    table = pd.DataFrame({"yes": answers.loc[days], "value": outcome.loc[days + lag].to_numpy(), "weekday": weekday(days)})
    rest = pd.Series((table.value - table.groupby("yes").value.transform("mean")).to_numpy(), index=days)
    n_eff = effective_pairs(flat(answers.loc[days]), flat(rest))
    sides = table.groupby(["weekday", "yes"])["value"].agg(["mean", "size"]).unstack()
    both = sides.dropna()
    a, b = both["size"][1.0], both["size"][0.0]
    weights = a * b / (a + b)
    size = (weights * (both["mean"][1.0] - both["mean"][0.0])).sum() / weights.sum()
    yes, no = table.value[table.yes == 1], table.value[table.yes == 0]
    if min(a.sum(), b.sum()) < 14:  # too few to match on weekdays
        size = yes.mean() - no.mean()
    else:
        inside = table[table.weekday.isin(both.index)]
        centred = inside.value - inside.groupby(["weekday", "yes"]).value.transform("mean")
        # Each weekday's mean took a degree of freedom.
        wider = lambda own: own * np.sqrt((len(own) - 1) / (len(own) - len(both)))
        yes, no = wider(centred[inside.yes == 1]), wider(centred[inside.yes == 0])
    return {"n": len(yes) + len(no), "size": size} | welch(size, yes, no, n_eff)


def welch(size, yes, no, n_eff):
    """The interval and p of a difference, with errors for the effective number of values."""
    n = len(yes) + len(no)
    inflation = max(n / n_eff, 1)
    parts = [own.var() / len(own) * inflation for own in (yes, no)]
    each = [part**2 / max(len(own) / inflation - 1, 1) for part, own in zip(parts, (yes, no))]
    freedom, error = max(sum(parts) ** 2 / sum(each), 1), np.sqrt(sum(parts))
    reach = scipy.stats.t.ppf(0.975, freedom) * error
    p = 2 * scipy.stats.t.sf(abs(size / error), freedom)
    return {"n_eff": min(n_eff, n), "p": p, "low": size - reach, "high": size + reach}


def jet_lag(offsets):
    """One for nights within five days of a change of the clock by three hours or more."""
    moved = offsets.diff().abs() >= 180
    flights = offsets.index[moved]
    return pd.Series({day: float(any(0 <= day - flight < 5 for flight in flights)) for day in offsets.index})


def memory(series):
    """The autocorrelation of ordinary days, corrected for the bias of short series."""
    away = pd.Series({day: value - series[(series.index >= day - 14) & (series.index <= day + 14)].median()
                      for day, value in series.items()})
    ordinary = series[away.abs() <= 2.5 * 1.4826 * scipy.stats.median_abs_deviation(away)]
    return float(np.clip((len(series) * autocorrelation(ordinary, 1) + 1) / (len(series) - 4), 0, 0.95))


def anomaly(series, first, last):
    """The mean of the far nights of the episode minus the median of the 90 days before it."""
    values = flat(series)
    counts = {day: ((values.index < day) & (values.index >= day - 90)).sum() for day in values.index}
    baseline = {day: values[(values.index < day) & (values.index >= day - 90)] for day in values.index}
    baseline = {day: before.median() for day, before in baseline.items() if len(before) >= 30}
    away = pd.Series({day: values[day] - middle for day, middle in baseline.items()})
    spread = 1.4826 * scipy.stats.median_abs_deviation(away)
    own = away[(away.index >= first) & (away.index <= last)]
    own = own[(own.abs() >= 2 * spread) & (np.sign(own) == np.sign(away[first]))]
    size = values.loc[own.index].mean() - baseline[first]
    rho, nights, before = memory(values), len(own), counts[first]
    squared = len(away) * (1 - rho**2) / (1 + rho**2)
    freedom = max(MAD_EFFICIENCY * (squared - 1), 2)
    of_nights = (nights + sum(2 * (nights - k) * rho**k for k in range(1, nights))) / nights**2
    error = spread * np.sqrt(of_nights + MEDIAN_VARIANCE / (before * (1 - rho) / (1 + rho)))
    reach = scipy.stats.t.ppf(0.975, freedom) * error
    return {"n": nights, "size": size, "low": size - reach, "high": size + reach}


def percent(metric, size):
    return 100 * (np.exp(size) - 1) if metric in LOGS else size


def recompute(claim, series, answers):
    """Named pairs of the claim's number and ours; an interval instead where the search differs."""
    metric, kind = claim["metric"], claim["kind"]
    own = series[metric]
    if kind == "correlation":
        ours = correlation(series[claim["other"]], own, claim["lag_days"])
        return [(name, claim[name], ours[name]) for name in ("n", "n_eff", "size", "p")] + ends(claim, ours, metric="r")
    if kind == "behaviour":
        ours = behaviour(own, answers[claim["other"]], claim["lag_days"])
        named = [(name, claim[name], ours[name]) for name in ("n", "n_eff", "p")]
        return named + [("size", claim["size"], percent(metric, ours["size"]))] + ends(claim, ours, metric)
    first, last = day_number(claim["from"]), day_number(claim["to"])
    if kind == "anomaly":
        ours = anomaly(own, first, last)
        return [("n", claim["n"], ours["n"]), ("size", claim["size"], percent(metric, ours["size"]))] + ends(claim, ours, metric)
    if kind == "trend":
        window = flat(own[own.index > own.index[-1] - 90])
        slope = scipy.stats.theilslopes(window, window.index).slope * 30
        return [("within", claim["interval"], percent(metric, slope))]
    # A change of level: of the nights around it, ruptures splits there, and the levels differ in that direction.
    values = flat(own)
    values = values[(values.index >= first - 45) & (values.index <= last + 45)]
    at = ruptures.Dynp(model="l2", min_size=14, jump=1).fit(values.to_numpy()).predict(n_bkps=1)[0]
    split = values.index[at]
    there = f"{claim['from']} to {claim['to']}"
    if not first - 10 <= split <= last + 10:
        return [("a break", there, str(pd.Timestamp(split, unit="D").date()))]
    return [("sign", np.sign(claim["size"]), np.sign(values.iloc[at:].mean() - values.iloc[:at].mean()))]


def ends(claim, ours, metric):
    """The ends of the interval."""
    return [(end, claim["interval"][end], percent(metric, ours[end])) for end in ("low", "high")]


def adjusted(claims, looks):
    """Benjamini and Hochberg's q of the claims, which are the smallest p-values of all looks."""
    p = np.array(sorted(claim["p"] for claim in claims))
    steps = np.minimum(p * looks / np.arange(1, len(p) + 1), 1)
    return np.minimum.accumulate(steps[::-1])[::-1]


def day_number(date):
    return (pd.Timestamp(date) - pd.Timestamp(0)).days


def agrees(name, theirs, ours):
    if name == "within":
        reach = theirs["high"] - theirs["low"]
        return theirs["low"] - reach / 2 <= ours <= theirs["high"] + reach / 2
    if isinstance(ours, str):
        return False
    # Small p-values are compared by their size, as far as doubles can tell.
    if name in ("p", "q"):
        return abs(theirs - ours) <= 0.03 * ours + 1e-12
    # Calories are rounded on their way through WHOOP's units, so energies differ in the fifth digit.
    return abs(theirs - ours) <= 2e-3 * max(1.0, abs(ours))


def cause(metric):
    return SAME_CAUSE.get(metric, metric)


def reports(plant, effect, claim):
    """Whether a claim reports the planted effect."""
    if claim["metric"] != effect["metric"]:
        return False
    first, last = (day_number(claim[end]) for end in ("from", "to"))
    begins = effect["days"][0]
    is_behaviour = lambda name: claim["kind"] == "behaviour" and claim["other"] == name
    return {
        "caffeine": lambda: is_behaviour(QUESTIONS["late_caffeine"]),
        "travel": lambda: is_behaviour(JET_LAG),
        "illness": lambda: claim["kind"] == "anomaly" and abs(first - begins) <= 7,
        "training_block": lambda: claim["kind"] == "change_point" and first <= begins <= last,
        "nothing": lambda: False,
    }[plant]()


def is_true(planted, claim):
    """Whether a claim follows from what was planted."""
    plant = planted["plant"]
    effect = lambda metric: next((own for own in planted["effects"] if own["metric"] == cause(metric)), None)
    own = effect(claim["metric"])
    if own is None:
        return False
    first, last = (day_number(claim[end]) for end in ("from", "to"))
    within = first <= own["days"][1] + 7 and last >= own["days"][0] - 7
    covers = lambda day: first <= day <= last
    return {
        "behaviour": lambda: reports(plant, own, claim),
        "correlation": lambda: effect(claim["other"]) is not None and (plant != "caffeine" or claim["lag_days"] == 0),
        "trend": lambda: plant == "training_block" and within,
        "change_point": lambda: plant in ("training_block", "travel") and (covers(own["days"][0]) or covers(own["days"][1] + 1)),
        "anomaly": lambda: plant in ("illness", "training_block") and within,
    }[claim["kind"]]()


def main():
    tollgate, people = str(Path(sys.argv[1]).resolve()), int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    planted_effects = found = claims_made = wrong = compared = differing = 0
    missed, false_claims = {}, {}
    with ThreadPoolExecutor(max_workers=2) as pool:
        for planted, raw, drivers in pool.map(lambda seed: person(tollgate, seed), range(first, first + people)):
            series, offsets = series_of(raw)
            answers = {question: pd.Series({day["number"]: float(day[field]) for day in planted["days"] if day["is_recorded"]})
                       for field, question in QUESTIONS.items()} | {JET_LAG: jet_lag(offsets)}
            claims = drivers["claims"]
            claims_made += len(claims)
            in_order = sorted(claims, key=lambda claim: claim["p"])
            for claim, q in zip(in_order, adjusted(claims, drivers["looks"])):
                claim["q here"] = q
            for claim in claims:
                what = f"{planted['plant']}: {claim['kind']} {claim['metric']} {claim.get('other', '')}".strip()
                if not is_true(planted, claim):
                    wrong += 1
                    false_claims[what] = false_claims.get(what, 0) + 1
                for name, theirs, ours in recompute(claim, series, answers) + [("q", claim["q"], claim["q here"])]:
                    compared += 1
                    if not agrees(name, theirs, ours):
                        differing += 1
                        print(f"seed {planted['seed']}: {what}: {name}: {theirs} there, {ours} here")
            for effect in planted["effects"]:
                planted_effects += 1
                own = next((claim for claim in claims if reports(planted["plant"], effect, claim)), None)
                if own and own["interval"]["low"] <= effect["size"] <= own["interval"]["high"]:
                    found += 1
                else:
                    what = f"{planted['plant']} {effect['metric']}: {'size' if own else 'not claimed'}"
                    missed[what] = missed.get(what, 0) + 1
    print(f"missed: {missed}\nfalse: {false_claims}")
    print(f"{people} people: {found} of {planted_effects} planted effects found with their size inside the interval, "
          f"{wrong} of {claims_made} claims false, {compared - differing} of {compared} recomputed numbers agree")
    # A handful of people says little about shares; then only the numbers must agree.
    is_many = people >= 100
    enough = found >= FOUND_MIN * planted_effects and wrong <= FALSE_MAX * max(1, claims_made)
    return 0 if differing == 0 and found > 0 and (enough or not is_many) else 1


if __name__ == "__main__":
    sys.exit(main())
