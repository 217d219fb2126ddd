#!/usr/bin/env python3
"""Verifies a tollgate audit log with nothing but Python: verify_chain.py FOLDER|EXPORT [CHECKPOINT.json]

Exit 0: the chain holds. Exit 1: it does not; the first bad record is named. The format is written down
in docs/reference/audit-format.md; this program was written from that page alone.
"""
import hashlib
import json
import os
import re
import sys


class Bad(Exception):
    pass


def segments(source):
    """Number, name and bytes of each segment of a folder, or of a chain exported to one file."""
    if os.path.isfile(source):
        parts = re.split(rb'(?m)^(?=[0-9a-f]{64} \{"kind":"state",)', open(source, "rb").read())
        numbered = [(re.search(rb'"segment":(\d+)', part), part) for part in parts if part]
        return [(int(n.group(1)) if n else 0, source, part) for n, part in numbered]
    names = sorted(n for n in os.listdir(source) if re.fullmatch(r"\d{8}\.log", n))
    return [(int(n[:8]), n, open(os.path.join(source, n), "rb").read()) for n in names]


def check_line(line, number, first_of_log, head, where):
    if not re.fullmatch(rb"[0-9a-f]{64} \{.*\}", line, re.DOTALL):
        raise Bad(f"{where}: not a row")
    stored, text = line[:64].decode(), line[65:]
    row = None
    try:
        row = json.loads(text)
    except ValueError:
        pass
    if first_of_log and isinstance(row, dict) and row.get("seq", 0) > 1:
        head.update(seq=row["seq"] - 1, hash=row.get("previous", ""), closed=True)
        head["first"] = (head["seq"], head["hash"])
    if hashlib.sha256(head["hash"].encode() + text).hexdigest() != stored:
        raise Bad(f"{where}: row {head['seq'] + 1} is not as it was written")
    if not isinstance(row, dict) or row.get("seq") != head["seq"] + 1:
        raise Bad(f"{where}: row {head['seq'] + 1} is missing")
    opens = row.get("kind") == "state"
    if opens != (number is not None) or (not opens and head["closed"]):
        raise Bad(f"{where}: row {row['seq']} does not belong here")
    if opens and (row.get("segment") != number or row.get("previous") != head["hash"]):
        raise Bad(f"{where}: row {row['seq']} belongs to another segment")
    head.update(seq=row["seq"], hash=stored, closed=row.get("kind") == "checkpoint")
    return row


def archives(row):
    if row.get("kind") == "note" and row.get("act") == "archive":
        yield row["last_seq"], row["last_hash"]
    archived = (row.get("state") or {}).get("archived")
    if archived:
        yield archived["last_seq"], archived["last_hash"]


def verify(source, checkpoint):
    head = {"seq": 0, "hash": "0" * 64, "closed": True, "first": (0, "0" * 64)}
    hashes, retired, ledger = {}, set(), None
    listed = segments(source)
    if not listed:
        raise Bad("there is no segment")
    for place, (number, name, content) in enumerate(listed):
        if number != listed[0][0] + place:
            raise Bad(f"segment {listed[0][0] + place:08}.log is missing")
        *lines, unfinished = content.split(b"\n")
        if place + 1 < len(listed) and unfinished:
            raise Bad(f"{name}: ends in the middle of a row")
        for index, line in enumerate(lines):
            where = f"{name} line {index + 1}"
            row = check_line(line, number if index == 0 else None, place + index == 0, head, where)
            retired.update(archives(row))
            ledger = head["hash"] if row["seq"] == 1 else (row.get("state") or {}).get("ledger", ledger)
            if checkpoint and row["seq"] == checkpoint["seq"]:
                hashes[row["seq"]] = head["hash"]
        if not lines or (place + 1 < len(listed) and not head["closed"]):
            raise Bad(f"{name}: rows are missing at its end")
    begins = head["first"][0]
    if begins and head["first"] not in retired and not any(last > begins for last, _ in retired):
        raise Bad(f"rows 1 to {head['first'][0]} are missing and were not retired")
    if checkpoint:
        known = hashes.get(checkpoint["seq"]) or dict([*retired, head["first"]]).get(checkpoint["seq"])
        if checkpoint["ledger"] != ledger or known != checkpoint["hash"]:
            raise Bad(f"row {checkpoint['seq']} is not the row of the checkpoint, or is missing")
    return head


if __name__ == "__main__":
    try:
        kept = json.load(open(sys.argv[2])) if len(sys.argv) > 2 else None
        end = verify(sys.argv[1], kept)
        print(f"ok: rows {end['first'][0] + 1} to {end['seq']}, {end['hash']}")
    except Bad as bad:
        sys.exit(f"bad: {bad}")
