"""The time and memory of every insight over ten years of data, through the real binary.

Usage: ten_years.py TOLLGATE [RUNS]. A sandbox person with ten years of nights, workouts and a journal is synced. One
session over stdio then asks every insight tool in turn, RUNS times each: the median of a single insight has to be
under 50 ms, a survey of ten years and a full report under 2 s, and the memory of the process must not grow.
"""

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from people import journal, run

DAYS = 3653
INSIGHT_MS_MAX, REPORT_MS_MAX = 50, 2000
# What the process may hold more after the last round than after the first quarter of them.
GROWTH_MAX = 1.10

WHOLE = {"days": DAYS}
PERIODS = {"first_from": "2020-01-01", "first_to": "2022-12-31", "second_from": "2023-01-01", "second_to": "2025-12-31"}
# Tool, arguments, and whether it is a survey of all looks rather than a single insight.
ASKED = [
    ("get_whoop_today", {}, False),
    ("get_whoop_review", {"period": "month"}, False),
    ("get_whoop_comparison", PERIODS, False),
    ("get_whoop_trend", {"metric": "hrv"} | WHOLE, False),
    ("get_whoop_baseline", {"metric": "resting_heart_rate"} | WHOLE, False),
    ("get_whoop_relation", {"x": "strain", "y": "recovery", "lag_days": 1} | WHOLE, False),
    ("get_whoop_training_load", {}, False),
    ("get_whoop_sleep_report", WHOLE, False),
    ("get_whoop_records", {}, False),
    ("get_whoop_aggregates", {"metric": "hrv"} | WHOLE, False),
    ("query_whoop", {"sql": "select local_date, recovery_score from whoop_recoveries order by local_date", "limit": 1000}, False),
    ("get_whoop_drivers", {}, False),
    ("get_whoop_drivers", WHOLE, True),
]


class Session:
    """One conversation with the server over stdio."""

    def __init__(self, tollgate, environment):
        self.process = subprocess.Popen([tollgate, "stdio", "whoop"], env=environment, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1)
        self.next_id = 0
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "bench", "version": "1"}})
        self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def send(self, message):
        self.process.stdin.write(json.dumps(message) + "\n")
        self.process.stdin.flush()

    def ask(self, method, params):
        self.next_id += 1
        self.send({"jsonrpc": "2.0", "id": self.next_id, "method": method, "params": params})
        while True:
            answer = json.loads(self.process.stdout.readline())
            if answer.get("id") == self.next_id:
                return answer

    def memory_mb(self):
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) / 1024


def measure(tollgate, environment, runs):
    session = Session(tollgate, environment)
    times, sizes, memory = {}, {}, []
    for _ in range(runs):
        for at, (tool, arguments, _) in enumerate(ASKED):
            began = time.perf_counter()
            answer = session.ask("tools/call", {"name": tool, "arguments": arguments})
            times.setdefault(at, []).append(1000 * (time.perf_counter() - began))
            result = answer["result"]
            assert not result.get("isError"), f"{tool}: {answer}"
            sizes[at] = len(json.dumps(result["structuredContent"]))
        memory.append(session.memory_mb())
    session.process.terminate()
    session.process.wait()
    return times, sizes, memory


def report(tollgate, environment, folder, runs):
    times = []
    for at in range(runs):
        began = time.perf_counter()
        run(tollgate, environment, "report", "--days", str(DAYS), "--html", f"{folder}/{at}.html")
        times.append(1000 * (time.perf_counter() - began))
    peak_mb = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    return statistics.median(times), Path(folder, "0.html").stat().st_size / 1024, peak_mb


def main():
    tollgate, runs = str(Path(sys.argv[1]).resolve()), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "HOME": folder, "TOLLGATE_HOME": f"{folder}/home", "NO_COLOR": "1", "TZ": "UTC",
                       "TOLLGATE_LOG": "error"}
        arguments = ["sandbox", "whoop", "--planted", "--unlimited", "--seed", "1", "--days", str(DAYS)]
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
            print(run(tollgate, environment, "sync", "whoop", "--full").strip())
        finally:
            sandbox.terminate()
            sandbox.wait()
        took_ms, report_kb, peak_mb = report(tollgate, environment, folder, 5)
        times, sizes, memory = measure(tollgate, environment, runs)
    good = took_ms <= REPORT_MS_MAX
    for at, (tool, arguments, is_survey) in enumerate(ASKED):
        median, most = statistics.median(times[at]), max(times[at])
        limit = REPORT_MS_MAX if is_survey else INSIGHT_MS_MAX
        good &= median <= limit
        what = f"{tool} {arguments.get('days', '')}".strip()
        print(f"{what}: {median:.1f} ms at the median of {runs}, {most:.1f} ms at most, {sizes[at] / 1024:.1f} KB"
              f"{'' if median <= limit else f' (over {limit} ms)'}")
    print(f"report of {DAYS} days: {took_ms:.0f} ms at the median of 5, {report_kb:.0f} KB, peak memory of any command {peak_mb:.0f} MB")
    first, last = memory[len(memory) // 4], memory[-1]
    flat = last <= first * GROWTH_MAX
    print(f"memory of the session: {first:.1f} MB after round {len(memory) // 4 + 1}, {last:.1f} MB after round {runs}"
          f"{'' if flat else ' (grows)'}")
    return 0 if good and flat else 1


if __name__ == "__main__":
    sys.exit(main())
