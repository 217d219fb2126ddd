"""A server whose prompts have names that clients reject. Each answers with the name that it was asked for."""

import json
import sys

NAMES = ["greet", "fs.read", "größe lesen", "x" * 90, "secret"]


def result(method, params):
    if method == "initialize":
        info = {"name": "prompts", "version": "1"}
        return {"protocolVersion": "2025-06-18", "capabilities": {"prompts": {}}, "serverInfo": info}
    if method == "prompts/list":
        return {"prompts": [{"name": name} for name in NAMES]}
    if method == "prompts/get" and params["name"] in NAMES:
        text = {"type": "text", "text": params["name"]}
        return {"messages": [{"role": "user", "content": text}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    found = result(message["method"], message.get("params", {}))
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    answer |= {"result": found} if found else {"error": {"code": -32601, "message": "no"}}
    print(json.dumps(answer), flush=True)
