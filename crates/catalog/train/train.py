"""Trains the weight table of the classifier and records what it scores on unseen servers.

    python3 rows.py TOOLS.jsonl > rows.jsonl
    cargo run -q -p catalog --example classifier -- features rows.jsonl > features.jsonl
    python3 train.py features.jsonl            # writes src/classify/weight_table.rs and train/figures.json

Needs scikit-learn (1.9.1 was used). Everything is deterministic. Families are left out whole, so that
no server is scored by a table that saw a sibling; our own lessons are never scored.
"""

import collections
import hashlib
import json
import pathlib
import sys

import numpy as np
from scipy.sparse import csr_matrix
from sklearn.linear_model import LogisticRegression

CLASSES = ["Read", "Write", "Destructive", "Execute", "Financial"]
FOLDS = 20
# Chosen on leave-family-out log likelihood; flat around these values.
REGULARISATION = 0.45
TIER_WEIGHT = {"gold": 1.0, "silver": 0.4, "lesson": 1.0}
FAMILY_EXPONENT = 0.25  # large families count less per row
FAMILIES_MIN = 3  # a bag word must appear in this many families, other features in two
PRUNE_BELOW = 0.03
# Silver labels come from rules, and some are wrong ("transfer a folder" as Financial). A silver row is left
# out when a model of gold rows and lessons alone gives its label less than this probability.
SILVER_PROBABILITY_MIN = 0.1
# The decision, in units of the score; `decide.rs` holds the same numbers in thousandths.
READ_MARGIN = 1.4
HINT_MARGIN = 3.5
LEAN = np.array([0.0, 0.4, -0.15, 2.0])  # Write, Destructive, Execute, Financial
BAG = ("says.word", "name.word", "param", "param.word")
ABSENCE = {"name.act=none", "says.act=none", "acts=none+none", "param.none"}
CHANGING = {f"choice={act}" for act in ("write", "destroy", "run", "drive", "money")}

STARTS = {"choice=run", "told=run", "starts.run", "name.raw_request"}
OWN_CODE = {"shape=command", "shape=code", "shape=sql", "shape=http", "shape=query", "cue=arbitrary"}


def group(row):
    return "aws" if row["family"].startswith("aws") else row["family"]


def vocabulary(rows):
    families = collections.defaultdict(set)
    for row in rows:
        for feature in row["features"]:
            families[feature].add(group(row))
    least = lambda f: FAMILIES_MIN if f.split("=")[0] in BAG else 2
    return {f: i for i, f in enumerate(sorted(f for f in families if len(families[f]) >= least(f)))}


def matrix(rows, vocab):
    starts, columns = [0], []
    for row in rows:
        columns += [vocab[f] for f in row["features"] if f in vocab]
        starts.append(len(columns))
    return csr_matrix((np.ones(len(columns)), columns, starts), shape=(len(rows), len(vocab)))


def row_weights(rows):
    size = collections.Counter((r["family"], r["tier"]) for r in rows)
    weight = lambda r: 1.0 if r["tier"] == "lesson" else (10 / size[r["family"], r["tier"]]) ** FAMILY_EXPONENT
    return np.array([TIER_WEIGHT[r["tier"]] * weight(r) for r in rows])


def fit(rows):
    return fit_all(plausible(rows))


def plausible(rows):
    sure = [r for r in rows if r["tier"] != "silver"]
    silver = [r for r in rows if r["tier"] == "silver"]
    odds = np.exp(scores(fit_all(sure), silver))
    chance = odds / odds.sum(1, keepdims=True)
    return sure + [r for r, p in zip(silver, chance) if p[CLASSES.index(r["label"])] >= SILVER_PROBABILITY_MIN]


def fit_all(rows):
    vocab = vocabulary(rows)
    labels = np.array([CLASSES.index(r["label"]) for r in rows])
    model = LogisticRegression(C=REGULARISATION, max_iter=500)
    model.fit(matrix(rows, vocab), labels, sample_weight=row_weights(rows))
    weights = model.coef_ - model.coef_.mean(0)
    return vocab, weights, model.intercept_ - model.intercept_.mean()


def scores(model, rows):
    vocab, weights, bias = model
    return np.asarray(matrix(rows, vocab) @ weights.T + bias)


def is_money(feature):
    return "money" in feature or "obligation" in feature or feature in ("cue=on_chain", "shape=pay", "shape=amount")


def decide(row, score, known):
    features = set(row["features"])
    read_only, destructive = row["hints"]
    changes = bool(features & CHANGING) or bool(features & {"choice.http", "issues.credential"})
    raw_request = "shape=http" in features and "choice.only_read" not in features
    margin = READ_MARGIN + (HINT_MARGIN if read_only is False or destructive is True else 0)
    ahead = score[0] - score[1:].max()
    ruled_out = changes or raw_request
    only_reads = {"choice.only_read", "says.act=read"} <= features and margin == READ_MARGIN
    if (ahead >= margin or (only_reads and ahead >= 0)) and not ruled_out:
        return 0
    if not (features & known) - ABSENCE:
        return 1
    if ahead >= READ_MARGIN and not ruled_out:
        return 1
    lean = LEAN.copy()
    if not any(map(is_money, features)):
        lean[3] = 0
    best = 1 + int((score[1:] + lean).argmax())
    if best == 1 and features & {"choice=destroy", "told=destroy"}:
        return 2
    if best == 1 and features & STARTS:
        return 3
    if best == 3 and "name.act=destroy" in features and not features & OWN_CODE:
        return 2
    return best


def figures(rows, answers):
    matrix = np.zeros((5, 5), int)
    for row, answer in zip(rows, answers):
        matrix[CLASSES.index(row["label"]), answer] += 1
    f1 = [2 * matrix[c, c] / (matrix[c].sum() + matrix[:, c].sum()) for c in range(5)]
    accepted = [CLASSES[a] in [r["label"], *r["alt"]] for r, a in zip(rows, answers)]
    missed = [r for r, a in zip(rows, answers) if a == 0 and r["label"] != "Read"]
    return {
        "rows": len(rows),
        "accuracy": round(float(np.trace(matrix) / len(rows)), 4),
        "accuracy_with_second_labels": round(float(np.mean(accepted)), 4),
        "macro_f1": round(float(np.mean(f1)), 4),
        "f1": {c: round(float(v), 4) for c, v in zip(CLASSES, f1)},
        "non_read_called_read": round(len(missed) / int(matrix[1:].sum()), 4),
        "of_those_without_second_label_read": sum("Read" not in r["alt"] for r in missed),
        "dangerous_recall": round(float(matrix[2:, 2:].sum() / matrix[2:].sum()), 4),
        "confusion": matrix.tolist(),
    }


def leave_families_out(rows):
    families = sorted({group(r) for r in rows if r["tier"] != "lesson"},
                      key=lambda f: hashlib.sha256(f.encode()).hexdigest())
    scored, answers = [], []
    for fold in range(FOLDS):
        out = set(families[fold::FOLDS])
        held = [r for r in rows if group(r) in out and r["tier"] == "gold"]
        model = fit([r for r in rows if group(r) not in out])
        scored += held
        answers += [decide(r, s, model[0].keys()) for r, s in zip(held, scores(model, held))]
    return scored, answers


def write_table(model, path):
    vocab, weights, bias = model
    thousandths = lambda column: ", ".join(str(round(float(v) * 1000)) for v in column)
    kept = [f for f in vocab if np.abs(weights[:, vocab[f]]).max() >= PRUNE_BELOW]
    lines = [
        "//! The weight table, written by `train/train.py`. Do not edit: change the lessons, the lexicon or",
        "//! the features, and train again. Thousandths for Read, Write, Destructive, Execute, Financial.",
        "",
        f"pub(super) const BIAS: [i32; 5] = [{thousandths(bias)}];",
        "",
        "/// Sorted by feature.",
        "#[rustfmt::skip]",
        "pub(super) static WEIGHTS: &[(&str, [i16; 5])] = &[",
    ]
    lines += [f"    ({json.dumps(f, ensure_ascii=False)}, [{thousandths(weights[:, vocab[f]])}])," for f in sorted(kept, key=lambda f: f.encode())]
    path.write_text("\n".join(lines) + "\n];\n")
    return len(kept)


if __name__ == "__main__":
    here = pathlib.Path(__file__).parent
    with open(sys.argv[1]) as source:
        rows = [r for r in map(json.loads, source) if r["label"]]
    gold = [r for r in rows if r["tier"] == "gold"]
    model = fit(rows)
    count = write_table(model, here.parent / "src" / "classify" / "weight_table.rs")
    unseen = figures(*leave_families_out(rows))
    seen = figures(gold, [decide(r, s, model[0].keys()) for r, s in zip(gold, scores(model, gold))])
    record = {"features": count, "families": len({group(r) for r in gold}), "folds": FOLDS,
              "unseen_families": unseen, "in_sample": seen}
    (here / "figures.json").write_text(json.dumps(record, indent=2) + "\n")
    print(json.dumps(record, indent=1))
