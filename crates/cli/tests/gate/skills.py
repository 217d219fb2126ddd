"""A server with skills for tests: `skills.py NAME STATE`. STATE is a JSON file that is read again for every request:
`skills` has the files of each skill by its path, `served` other texts for single URIs, `dynamic` the skills without
digests, `unlisted` those that only `skills/get` finds, `said` other members of the frontmatter of an entry. A `SKILL.md`
without a frontmatter gets one. Every request is appended to STATE.log."""
import hashlib, json, sys

NAME, STATE = sys.argv[1], sys.argv[2]
EXTENSION = "io.modelcontextprotocol/skills"


def state():
    with open(STATE) as file:
        return json.load(file)


def front_of(path):
    return {"name": path.split("/")[-1], "description": "Skill %s of %s" % (path, NAME)}


def texts(path, now):
    files = dict(now["skills"][path])
    if not files.get("SKILL.md", "---").startswith("---"):
        head = "".join("%s: %s\n" % pair for pair in front_of(path).items())
        files["SKILL.md"] = "---\n%s---\n%s" % (head, files["SKILL.md"])
    return files


def entry(path, now):
    root = "skill://" + path
    files = texts(path, now)
    described = [
        {"uri": root + "/" + name, "digest": "sha256:" + hashlib.sha256(text.encode()).hexdigest(), "size": len(text.encode())}
        for name, text in sorted(files.items())
    ]
    front = dict(front_of(path), **now.get("said", {}).get(path, {}))
    return {"uri": root + "/SKILL.md", "frontmatter": front, "resources": "dynamic" if path in now.get("dynamic", []) else described}


def result(method, params):
    now = state()
    if method == "initialize":
        offers = {"tools": {}, "resources": {}, "extensions": {EXTENSION: {"directoryRead": True}}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": {"name": NAME, "version": "1"}}
    if method == "tools/list":
        return {"tools": [{"name": "plain", "inputSchema": {"type": "object"}}]}
    if method == "resources/list":
        files = ["skill://%s/%s" % (path, name) for path, files in now["skills"].items() for name in files]
        return {"resources": [{"uri": uri, "name": uri} for uri in files + ["mem://" + NAME]]}
    if method == "skills/list":
        return {"skills": [entry(path, now) for path in sorted(now["skills"]) if path not in now.get("unlisted", [])]}
    if method == "skills/get":
        path = params["uri"][len("skill://") : -len("/SKILL.md")]
        return {"skill": entry(path, now)} if path in now["skills"] else None
    if method == "resources/read":
        uri = params["uri"]
        for path in now["skills"]:
            for name, text in texts(path, now).items():
                if uri == "skill://%s/%s" % (path, name):
                    return {"contents": [{"uri": uri, "mimeType": "text/markdown", "text": now.get("served", {}).get(uri, text)}]}
        return {"contents": [{"uri": uri, "text": "memory of " + NAME}]} if uri == "mem://" + NAME else None
    if method == "resources/directory/read":
        uri, found = params["uri"], {}
        for path, files in now["skills"].items():
            for name in list(files) + now.get("extra", []):
                file = "skill://%s/%s" % (path, name)
                if file.startswith(uri + "/"):
                    child = file[len(uri) + 1 :].split("/")[0]
                    found[child] = {"uri": uri + "/" + child, "name": child}
        return {"resources": list(found.values())} if found else None
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    with open(STATE + ".log", "a") as log:
        log.write("%s %s\n" % (message["method"], (message.get("params") or {}).get("uri", "")))
    found = result(message["method"], message.get("params") or {})
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if found is None:
        answer["error"] = {"code": -32602, "message": "not found"}
    else:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
