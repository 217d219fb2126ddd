"""A server for tests with many of them: `many.py NAME NOTES`. It notes the number of each process in NOTES.pids, waits
with every answer while NOTES.hold is there, ends at once while NOTES.dead is there, and offers `ask` to clients that
take questions and `more` while NOTES.more is there."""
import json, os, sys, time

NAME, NOTES = sys.argv[1], sys.argv[2]
asks = False
with open(NOTES + ".pids", "a") as pids:
    pids.write("%d\n" % os.getpid())
if os.path.exists(NOTES + ".dead"):
    sys.exit(3)


def tool(name):
    return {"name": name, "inputSchema": {"type": "object"}}


def result(method, params):
    global asks
    if method == "initialize":
        asks = "elicitation" in params.get("capabilities", {})
        offers = {"tools": {}, "prompts": {}, "resources": {"subscribe": True}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": {"name": NAME, "version": "1"}}
    if method == "tools/list":
        more = ["ask"] if asks else []
        more += ["more"] if os.path.exists(NOTES + ".more") else []
        return {"tools": [tool(name) for name in ["read_file", "only_" + NAME, *more]]}
    if method == "prompts/list":
        return {"prompts": [{"name": "greet"}]}
    if method == "resources/list":
        return {"resources": [{"name": "r", "uri": "many://" + NAME}]}
    if method == "tools/call":
        words = json.dumps({"server": NAME, "pid": os.getpid(), "tool": params["name"], "arguments": params.get("arguments")})
        return {"content": [{"type": "text", "text": words}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    while os.path.exists(NOTES + ".hold"):
        time.sleep(0.02)
    if "id" not in message or "method" not in message:
        continue
    found = result(message["method"], message.get("params") or {})
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if message["method"] == "tools/call" and "note" in (message["params"].get("arguments") or {}):
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": message["params"]["arguments"]["note"]}}
        print(json.dumps(note), flush=True)
        question = {"jsonrpc": "2.0", "id": "q%s" % message["id"], "method": "elicitation/create", "params": {"message": message["params"]["arguments"]["note"], "requestedSchema": {"type": "object", "properties": {}}}}
        print(json.dumps(question), flush=True)
    if found is None:
        answer["error"] = {"code": -32601, "message": "no such method"}
    else:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
