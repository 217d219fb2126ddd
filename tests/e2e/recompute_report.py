"""The report recomputed in Python: every number of its page, read from the text, against the raw records."""

import html
import re

import numpy as np

import recompute_survey as stats
import recompute_tools as tools
from recompute_tools import date, last, number

TITLES = {"recovery": "Recovery", "hrv": "HRV", "resting_heart_rate": "Resting heart rate",
          "respiratory_rate": "Respiratory rate", "skin_temperature": "Skin temperature", "asleep": "Time asleep",
          "bedtime": "Bedtime", "strain": "Day strain", "workout_energy": "Workout energy"}
LINES = ["recovery", "hrv", "resting_heart_rate", "asleep", "respiratory_rate"]
UNITS = {"recovery": "percent", "hrv": "milliseconds"}
REPORT_DAYS, CALENDAR_DAYS = 30, 182
# Numbers that are words.
FIXED = ["95 % interval", "per 30 days", "of 100", "range of 60 days"]
NUMBER = re.compile(r"([+−-]?)(\d+) h (\d+) min|(\d\d):(\d\d)|([+−-]?)(\d+(?:\.(\d+))?)")


def said(text):
    """The numbers of a sentence, each with half of its last digit. Durations and times of day are minutes."""
    for fixed in FIXED:
        text = text.replace(fixed, "")
    text = re.sub(r"\d{4}-\d\d-\d\d", "", text)
    found = []
    for own in NUMBER.finditer(text):
        sign_h, hours, minutes, clock_h, clock_min, sign, plain, decimals = own.groups()
        if hours or clock_h:
            value = 60 * int(hours or clock_h) + int(minutes or clock_min)
        else:
            value = float(plain)
        half = 0.51 * 10 ** -len(decimals or "")
        found.append((-value if (sign_h or sign or "+") in "−-" else value, half))
    return found


def matches(text, expected):
    """Whether the numbers of a sentence are these, as far as it shows them."""
    found = said(text)
    return len(found) == len(expected) and all(abs(own - value) <= half for (own, half), value in zip(found, expected))


def sentence(name, text, expected):
    """A comparison that shows the sentence where it differs."""
    yield f"report {name}", text if not matches(text, expected) else "", "" if matches(text, expected) else str(expected)


def heading(look, is_claim):
    """How the sentence of a look begins, and what else it contains."""
    title, other = TITLES[look["metric"]], look["other"]
    dates = date(look["from"]) if look["from"] == look["to"] else f"{date(look['from'])} to {date(look['to'])}"
    when = " of the day before" if look.get("lag_days") else ""
    return {
        "anomaly": lambda: (f"{title} was unusual from {dates}:", ""),
        "behaviour": lambda: (f"{title} differs by ", f"with “{other}” (") if is_claim else (f"{title} with “{other}”:", ""),
        "change_point": lambda: (f"{title} changed its level by ", f"between {dates} ("),
        "trend": lambda: (f"{title} moved by ", f"per 30 days, {dates} ("),
        "correlation": lambda: (f"{title} {'goes with' if is_claim else 'and'} {TITLES[other]}{when}:", ""),
    }[look["kind"]]()


def survey_checks(text, series, answers):
    """The sentences of all claims, and of the looks without one."""
    looks, since, until = re.search(r"(\d+) looks at the data from (\S+) to (\S+)\.", text).groups()
    section = text.split("<h2>What the data says</h2>")[1].split("</section>")[0]
    survey, best = section.split("<h3>What the best nights")
    lines = re.findall(r"<li>(.*?)</li>", survey)
    tested = series | {"hrv": np.log(series["hrv"])}
    again, count = stats.survey(tested, answers, number(since), number(until))
    yield "report looks", int(looks), count
    claims = [look for look in again if look["q"] <= stats.FALSE_MAX]
    unclear = [look for look in again if look["q"] > stats.FALSE_MAX and look["other"]]
    # The looks with too little data have no numbers of their own.
    short = [line for line in lines if "not enough data" in line]
    yield "report lines", len(lines) - len(short), len(claims) + len(unclear)
    for look in claims + unclear:
        begins, has = heading(look, look["q"] <= stats.FALSE_MAX)
        own = [line for line in lines if line.startswith(begins) and has in line and line not in short]
        yield f"report: {begins} {has}", len(own), 1
        numbers = [look["size"], look["low"], look["high"], look["n"]]
        yield from sentence(begins, own[0] if own else "", numbers + [look["n_eff"]] * (look["kind"] != "anomaly"))
    facts, traits = stats.best_nights(series, answers, number(since), number(until))
    said_best = re.findall(r"<li>(.*?)</li>", best)
    yield from sentence("best nights", said_best[0], [facts["n_best"], facts["n"], facts["threshold"]])
    for name, own in traits.items():
        title = TITLES.get(name, f"“{name}”")
        line = next((line for line in said_best if re.search(f"^(Best nights: )?{re.escape(title)}", line)), "")
        yield f"report best nights {name}", line.startswith("Best nights: "), bool(own["q"] <= stats.FALSE_MAX)
        is_share = name not in TITLES
        numbers = [100 * value if is_share else value for value in (own["size"], own["low"], own["high"])]
        yield f"report best nights {name}", matches(" ".join(line.split(",")[1:]), [*numbers, own["n"], own["n_eff"]]), True


def facts_checks(text, series, spans, since, until, today):
    """The facts on sleep and load, and the sentences on recovery."""
    found = dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", text))
    need = tools.sleep_need(series["asleep"], series["sleep_need"], until, REPORT_DAYS)
    regular = tools.regularity(spans, since, until)
    load = tools.load_state(series["workout_energy"])
    expected = {}
    if need:
        expected |= {"Asleep per night": [need["asleep_min"]], "Need per night": [need["need_min"]],
                     "Nights below need": [need["nights_below_need"], need["n"]],
                     f"Sleep missed in {REPORT_DAYS} days": [max(need["debt_min"], 0)]}
    if regular:
        expected |= {"Sleep Regularity Index": [regular["sri"], regular["pairs"]],
                     "Middle of the night": [regular["mid_sleep_min"], regular["mid_sleep_deviation_min"]]}
        if regular["social_jet_lag_min"] is not None:
            expected["Social jet lag"] = [regular["social_jet_lag_min"]]
    expected |= {"Fitness (CTL, 42 days)": [load["ctl"]], "Fatigue (ATL, 7 days)": [load["atl"]],
                 "Form (CTL − ATL)": [load["tsb"]], "Days with a known load": [load["n"]]}
    if load["acwr_uncoupled"] is not None:
        expected["Last 7 days against the 21 before"] = [load["acwr_uncoupled"]]
    if load["monotony"] is not None:
        expected["Monotony of the last 7 days"] = [load["monotony"]]
    yield "report facts", sorted(name for name in found if name not in ("Sleep", "Regularity")), sorted(expected)
    for name in found.keys() & expected.keys():
        yield from sentence(name, found[name], expected[name])
    newest = max(own.index[-1] for own in series.values())
    for metric in tools.SIGNS:
        title = TITLES[metric]
        line = re.search(rf"<li>{title}, mean of \S+ to \S+: (.*?)</li>", text)
        week = tools.week_state(series[metric], min(newest, today), metric == "hrv")
        yield f"report sign of {title}", line is not None, week is not None
        if line and week:
            yield from sentence(f"sign of {title}", line[1], [week["mean"], week["n_7"], week["low"], week["high"], week["n"]])
            yield f"report side of {title}", f", {week['position']} its range" in line[1], True


def day_checks(text, series, since, until):
    """The tiles and the tables of the days."""
    tiles = re.findall(r'<li><span class="soft">([^<]*), mean</span><b>([^<]*)</b><span class="soft">([^<]*)</span></li>', text)
    yield "report tiles", [title for title, *_ in tiles], [TITLES[metric] for metric in LINES]
    for metric, (title, mean, usual) in zip(LINES, tiles):
        own = series[metric][(series[metric].index >= since) & (series[metric].index <= until)]
        yield from sentence(f"mean of {title}", mean, [own.mean()])
        ours = tools.median_range(series[metric], until, 90, UNITS.get(metric))
        if ours:
            yield from sentence(f"usual range of {title}", usual, [ours["low"], ours["high"], ours["n"]])
    calendar = text.split("<h2>Half a year</h2>")[1].split("</section>")[0]
    by_day = text.split("<h2>By day</h2>")[1].split("</section>")[0]
    for metric in LINES:
        table = by_day.split(f"Data of {TITLES[metric]}<")[1].split("</table>")[0]
        rows = re.findall(r"<td>(\d{4}-\d\d-\d\d)</td><td>([^<]*)</td>", table)
        own = series[metric][(series[metric].index >= since) & (series[metric].index <= until)]
        yield f"report days of {metric}", [day for day, _ in rows], [date(day) for day in own.index[::-1]]
        for day, shown in rows:
            yield from sentence(f"{metric} of {day}", shown, [own.get(number(day), np.nan)])
    cells = re.findall(r"<title>(\d{4}-\d\d-\d\d): ([^<]*)</title>", calendar)
    own = series["recovery"]
    # It begins with the first reading of half a year.
    begins = last(own, until, CALENDAR_DAYS).index[0]
    yield "report calendar", [day for day, _ in cells], [date(day) for day in range(begins, until + 1)]
    for day, shown in cells:
        yield from sentence(f"calendar of {day}", shown, [own[number(day)]] if number(day) in own.index else [])


def checks(page, series, answers, spans, today):
    text = html.unescape(page)
    since, until = map(number, re.search(r'<p class="soft">(\S+) to (\S+), \d+ days with data', text).groups())
    yield "report span", until - since + 1, REPORT_DAYS
    yield from survey_checks(text, series, answers)
    yield from facts_checks(text, series, spans, since, until, today)
    yield from day_checks(text, series, since, until)
