"""Labelled rows and our own lessons as one stream of JSON lines, for `--example classifier`.

Usage: python3 rows.py ../../../../shared/data/tools_dev.jsonl > rows.jsonl
"""

import json
import pathlib
import sys


def parameter(text):
    name, _, values = text.partition(":")
    schema = {"enum": values.split("|")} if values else {}
    return name.rstrip("*"), schema, name.endswith("*")


def lesson(line, domain):
    label, name, description, parameters = line.split("\t")
    parsed = [parameter(p) for p in parameters.split(",") if p]
    return {
        "server": "lesson", "family": f"lesson:{domain}", "tool": name, "title": None,
        "description": description,
        "input_schema": {
            "type": "object",
            "properties": {n: s for n, s, _ in parsed},
            "required": [n for n, _, required in parsed if required],
        },
        "read_only_hint": None, "destructive_hint": None, "idempotent_hint": None,
        "open_world_hint": None, "label": label, "label_alt": [], "label_tier": "lesson",
    }


def lessons(path):
    domain = "none"
    for line in path.read_text().splitlines():
        if line.startswith("## "):
            domain = line[3:]
        elif line and not line.startswith("#"):
            yield lesson(line, domain)


if __name__ == "__main__":
    with open(sys.argv[1]) as labelled:
        sys.stdout.writelines(labelled)
    for row in lessons(pathlib.Path(__file__).with_name("lessons.tsv")):
        print(json.dumps(row))
