"""Judges the insights of seeded sandbox people: planted effects, false claims, and every number recomputed.

Usage: people.py TOLLGATE PEOPLE [FIRST_SEED]. For each seed a sandbox WHOOP has one person with a planted effect
of known size, or none (`tollgate sandbox whoop --planted`). The real binary connects, imports the journal, syncs,
answers the insight tools and writes its report. All looks of the survey, with their number, the other answers and every
number of the report are then recomputed here from the records that the sandbox served (`recompute_survey.py`,
`recompute_tools.py`, `recompute_report.py`), and all findings are compared with what was planted.
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

import recompute_report as reported
import recompute_survey as stats
import recompute_tools as tools
from recompute_survey import JET_LAG

DAYS = 365
QUESTIONS = {"late_caffeine": "late caffeine", "read_in_bed": "read in bed", "alcohol": "alcohol"}
# Strain is made from the load, so an effect on the load is one on the strain.
SAME_CAUSE = {"strain": "workout_energy"}
# WHOOP has kilojoules and milliseconds; the records of the gate whole kilocalories, made with this factor, and tenths
# of a second.
KILOCALORIES = 0.239006
minutes = lambda ms: round(ms / 1000, 1) / 60
FOUND_MIN, FALSE_MAX = 0.90, 0.05
# Periods differ up to this q.
PERIODS_FALSE_MAX = 0.01


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


def ask(tollgate, environment, calls):
    """What the tools answer, in one conversation."""
    hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "judge", "version": "1"}}}
    lines = [hello, {"jsonrpc": "2.0", "method": "notifications/initialized"}]
    lines += [{"jsonrpc": "2.0", "id": at, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
              for at, (tool, arguments) in enumerate(calls, 1)]
    said = run(tollgate, environment, "stdio", "whoop", text="".join(json.dumps(line) + "\n" for line in lines))
    answers = {answer.get("id"): answer for answer in map(json.loads, said.splitlines())}
    return [answers[at]["result"]["structuredContent"] for at in range(1, len(calls) + 1)]


def person(tollgate, seed):
    """What was planted, what the sandbox served, and what the binary says."""
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
            drivers, now = ask(tollgate, environment, [("get_whoop_drivers", {"days": DAYS}), ("get_whoop_today", {})])
            asked = tools.asked(tools.number(now["date"]))
            answers = {(tool, arguments.get("metric")): answer
                       for (tool, arguments), answer in zip(asked, ask(tollgate, environment, asked))}
            page = Path(folder, "report.html")
            run(tollgate, environment, "report", "--days", "30", "--html", str(page))
            return in_units(ready["planted"]), raw, drivers, answers, page.read_text()
        finally:
            sandbox.terminate()
            sandbox.wait()


def in_units(planted):
    """Energy is planted in kilojoules, and answers have kilocalories."""
    for effect in planted["effects"]:
        effect["size"] *= KILOCALORIES if effect["metric"] == "workout_energy" else 1
    return planted


def local_day(instant, offset):
    sign = -1 if offset[0] == "-" else 1
    minutes = sign * (int(offset[1:3]) * 60 + int(offset[4:6]))
    local = pd.Timestamp(instant).tz_convert("UTC") + pd.Timedelta(minutes=minutes)
    return (local.tz_localize(None).normalize() - pd.Timestamp(0)).days, minutes


def series_of(raw):
    """The metrics by local day in the units of the answers, the offsets by day, and all sleeps with theirs."""
    values, offsets, days, spans = {}, {}, {}, []
    put = lambda metric, day, value: values.setdefault(metric, {}).__setitem__(day, value)
    for sleep in raw["sleep"]:
        day, offsets_min = local_day(sleep["end"], sleep["timezone_offset"])
        minute = lambda end: int(pd.Timestamp(sleep[end]).timestamp() // 60)
        spans.append((minute("start"), minute("end"), bool(sleep["nap"]), offsets_min))
        days[sleep["cycle_id"]], offsets[day] = day, offsets_min
        stages = sleep["score"]["stage_summary"]
        asleep_ms = sum(stages[f"total_{stage}_time_milli"] for stage in ("light_sleep", "slow_wave_sleep", "rem_sleep"))
        put("asleep", day, minutes(asleep_ms))
        put("respiratory_rate", day, sleep["score"]["respiratory_rate"])
        put("sleep_need", day, minutes(sum(sleep["score"]["sleep_needed"].values())))
        began = pd.Timestamp(sleep["start"]) + pd.Timedelta(minutes=offsets_min)
        # 22:30 is −90 and 00:30 is 30.
        put("bedtime", day, (began.hour * 60 + began.minute - 720) % 1440 - 720)
    for recovery in raw["recovery"]:
        day, score = days[recovery["cycle_id"]], recovery["score"]
        put("recovery", day, score["recovery_score"])
        put("hrv", day, score["hrv_rmssd_milli"])
        put("resting_heart_rate", day, score["resting_heart_rate"])
        put("skin_temperature", day, score["skin_temp_celsius"])
    trained = {}
    for workout in raw["workout"]:
        day, _ = local_day(workout["start"], workout["timezone_offset"])
        trained[day] = trained.get(day, 0) + round(workout["score"]["kilojoule"] * KILOCALORIES)
    for cycle in raw["cycle"]:
        if cycle["end"]:
            day = days[cycle["id"]]
            put("strain", day, cycle["score"]["strain"])
            put("workout_energy", day, trained.get(day, 0))
    series = {metric: pd.Series(own).sort_index() for metric, own in values.items()}
    return series, pd.Series(offsets).sort_index(), spans


def recompute(drivers, series, answers):
    """Named pairs of the numbers of the survey and ours. Looks without a claim are compared where they are shown."""
    tested = series | {"hrv": np.log(series["hrv"])}
    span = day_number(drivers["from"]), day_number(drivers["to"])
    looks, count = stats.survey(tested, answers, *span)
    yield "looks", drivers["looks"], count
    key = lambda look, day: (look["kind"], look["metric"], look.get("other"), look.get("lag_days"), day(look["from"]), day(look["to"]))
    ours = {key(look, int): look for look in looks}
    is_claim = lambda look: look["q"] <= stats.FALSE_MAX
    shown = lambda look: is_claim(look) or look["other"]
    theirs = {key(look, day_number): look for look in drivers["claims"] + drivers["unclear"]}
    yield "looks shown", sorted(map(str, theirs)), sorted(str(name) for name, look in ours.items() if shown(look))
    claimed = {key(look, day_number) for look in drivers["claims"]}
    yield "claims", sorted(map(str, claimed)), sorted(str(name) for name, look in ours.items() if is_claim(look))
    for name in theirs.keys() & ours.keys():
        what, own, again = " ".join(str(part) for part in name[:3]), theirs[name], ours[name]
        for field in ("n", "n_eff", "size", "p", "q"):
            yield f"{what}: {field}", own[field], again[field]
        for end in ("low", "high"):
            yield f"{what}: {end}", own["interval"][end], again[end]
    facts, traits = stats.best_nights(series, answers, *span)
    best = drivers["best_nights"]
    for name, value in facts.items():
        yield f"best nights: {name}", best[name], value
    shown = {own["name"]: own for own in best["shared"] + best["unclear"]}
    yield "best nights: traits", sorted(shown), sorted(traits)
    for name in shown.keys() & traits.keys():
        own, again = shown[name], traits[name]
        yield from ((f"best nights: {name}: {field}", own[field], again[field]) for field in ("n", "n_eff", "p", "q"))
        yield f"best nights: {name}: difference", own["difference"], again["size"]
        yield from ((f"best nights: {name}: {end}", own["interval"][end], again[end]) for end in ("low", "high"))


def day_number(date):
    return (pd.Timestamp(date) - pd.Timestamp(0)).days


def agrees(name, theirs, ours):
    if isinstance(theirs, list):
        return len(theirs) == len(ours) and all(agrees(name, *both) for both in zip(theirs, ours))
    if isinstance(theirs, (str, bool)) or theirs is None or ours is None:
        return theirs == ours
    # Small p-values are compared by their size, as far as doubles can tell.
    if name.split()[-1] in ("p", "q"):
        return abs(theirs - ours) <= 1e-4 * ours + 1e-12
    # Six digits are shown, and three decimals of some values.
    return abs(theirs - ours) <= max(5.1e-4, 1e-4 * abs(ours))


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


def is_common(planted, shared):
    """Whether what the best nights have in common follows from what was planted."""
    plant, effects = planted["plant"], {own["metric"] for own in planted["effects"]}
    if "recovery" not in effects:
        return False
    # What caffeine does to a night and to its recovery is on the same day.
    return shared["name"] == QUESTIONS["late_caffeine"] or (cause(shared["name"]) in effects and shared["days_before"] == 0)


def differs(planted, metric, periods):
    """Whether a difference of two periods follows from what was planted."""
    touches = lambda own, span: own["days"][0] <= span[1] and span[0] <= own["days"][1]
    return any(own["metric"] == cause(metric) and touches(own, span) for own in planted["effects"] for span in periods)


def all_claims(planted, drivers, told):
    """Everything that an answer to many questions at once calls a finding: its name, and whether it was planted."""
    for claim in drivers["claims"]:
        yield f"{claim['kind']} {claim['metric']} {claim.get('other', '')}".strip(), is_true(planted, claim)
    for shared in drivers["best_nights"]["shared"]:
        yield f"best nights {shared['name']}", is_common(planted, shared)
    for tool in ("get_whoop_review", "get_whoop_comparison"):
        answer = told[tool, None]
        periods = tools.periods(tool, answer)
        for own in answer["metrics"]:
            if (own["q"] or 0) <= PERIODS_FALSE_MAX and "p" in own:
                yield f"{tool} {own['metric']}", differs(planted, own["metric"], periods)


def main():
    tollgate, people = str(Path(sys.argv[1]).resolve()), int(sys.argv[2])
    first = int(sys.argv[3]) if len(sys.argv) > 3 else 0
    planted_effects = found = claims_made = wrong = compared = differing = 0
    missed, false_claims, by_kind = {}, {}, {}
    with ThreadPoolExecutor(max_workers=2) as pool:
        for planted, raw, drivers, told, page in pool.map(lambda seed: person(tollgate, seed), range(first, first + people)):
            series, offsets, spans = series_of(raw)
            answers = {question: pd.Series({day["number"]: float(day[field]) for day in planted["days"] if day["is_recorded"]})
                       for field, question in QUESTIONS.items()} | {JET_LAG: stats.jet_lag(offsets)}
            answers = {question: own for question, own in answers.items() if question != JET_LAG or own.any()}
            claims = drivers["claims"]
            for name, is_planted in all_claims(planted, drivers, told):
                claims_made += 1
                if not is_planted:
                    wrong += 1
                    what = f"{planted['plant']}: {name}"
                    false_claims[what] = false_claims.get(what, 0) + 1
                kind = name.split()[0]
                by_kind[kind] = np.add(by_kind.get(kind, (0, 0)), (not is_planted, 1))
            today = tools.number(told["get_whoop_today", None]["date"])
            pairs = [*recompute(drivers, series, answers), *tools.checks(told, series, spans, today),
                     *reported.checks(page, series, answers, spans, today)]
            for name, theirs, ours in pairs:
                compared += 1
                if not agrees(name, theirs, ours):
                    differing += 1
                    print(f"seed {planted['seed']}: {name}: {theirs} there, {ours} here")
            for effect in planted["effects"]:
                planted_effects += 1
                own = next((claim for claim in claims if reports(planted["plant"], effect, claim)), None)
                if own and own["interval"]["low"] <= effect["size"] <= own["interval"]["high"]:
                    found += 1
                else:
                    what = f"{planted['plant']} {effect['metric']}: {'size' if own else 'not claimed'}"
                    missed[what] = missed.get(what, 0) + 1
    print(f"missed: {missed}\nfalse: {false_claims}")
    print("false of all, by kind:", ", ".join(f"{kind} {own[0]} of {own[1]}" for kind, own in sorted(by_kind.items())))
    print(f"{people} people: {found} of {planted_effects} planted effects found with their size inside the interval, "
          f"{wrong} of {claims_made} claims false, {compared - differing} of {compared} recomputed numbers agree")
    # A handful of people says little about shares; then only the numbers must agree.
    is_many = people >= 100
    enough = found >= FOUND_MIN * planted_effects and wrong <= FALSE_MAX * max(1, claims_made)
    return 0 if differing == 0 and found > 0 and (enough or not is_many) else 1


if __name__ == "__main__":
    sys.exit(main())
