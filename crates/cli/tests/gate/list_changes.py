"""A server whose lists grow when it is told: `news.py ERA FILE [PORT]`. Each line of FILE names a list that
has grown. On standard streams, or over HTTP at a port (0 for any), which is its first line then."""
import json, os, queue, sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MODERN, FILE = sys.argv[1] == "modern", sys.argv[2]
META = "io.modelcontextprotocol/"
KINDS = ["tools", "prompts", "resources"]
lengths, ears, lock = {kind: 1 for kind in KINDS}, [], threading.Lock()


def result(method, params):
    offers = {kind: {"listChanged": True} for kind in KINDS}
    if method == "initialize" and not MODERN:
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": {"name": "n", "version": "1"}}
    if method == "server/discover" and MODERN:
        return {"supportedVersions": ["2026-07-28"], "capabilities": offers}
    if method == "resources/templates/list":
        return {"resourceTemplates": []}
    kind = method.split("/")[0]
    if method.endswith("/list") and kind in KINDS:
        items = range(lengths[kind])
        more = {"inputSchema": {"type": "object"}} if kind == "tools" else {}
        return {kind: [{"name": "n%d" % n, "uri": "n://%s/%d" % (FILE, n), **more} for n in items]}
    return None


def answer(message):
    params = message.get("params") or {}
    known = not MODERN or META + "protocolVersion" in params.get("_meta", {})
    found = result(message["method"], params) if known else None
    if found is None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "no such method"}}
    if MODERN:
        found = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **found}
    return {"jsonrpc": "2.0", "id": message["id"], "result": found}


def listen(message, put):
    wanted, tag = message["params"].get("notifications", {}), {META + "subscriptionId": message["id"]}
    method = "notifications/subscriptions/acknowledged"
    put({"jsonrpc": "2.0", "method": method, "params": {"notifications": wanted, "_meta": tag}})
    ears.append((tag, wanted, put))


def watch():
    seen = 0
    while True:
        lines = open(FILE).read().splitlines() if os.path.exists(FILE) else []
        for kind in lines[seen:]:
            lengths[kind] += 1
            news = {"jsonrpc": "2.0", "method": "notifications/%s/list_changed" % kind}
            for tag, wanted, put in list(ears):
                if tag is None:
                    put(news)
                elif wanted.get(kind + "ListChanged"):
                    put({**news, "params": {"_meta": tag}})
        seen = len(lines)
        time.sleep(0.02)


class OverHttp(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def begin(self, status, kind, more=(("content-length", "0"),)):
        self.send_response(status)
        for name, value in [("content-type", kind), *more]:
            self.send_header(name, value)
        self.end_headers()

    def stream(self, first):
        self.begin(200, "text/event-stream", [("connection", "close")])
        mine = queue.Queue()
        if first:
            listen(first, mine.put)
        else:
            ears.append((None, None, mine.put))
        while True:
            self.wfile.write(b"data: " + json.dumps(mine.get()).encode() + b"\n\n")
            self.wfile.flush()

    def do_GET(self):
        return self.begin(405, "text/plain") if MODERN else self.stream(None)

    def do_DELETE(self):
        self.begin(200, "text/plain")

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message:
            return self.begin(202, "text/plain")
        if MODERN and message["method"] == "subscriptions/listen":
            return self.stream(message)
        body = json.dumps(answer(message)).encode()
        session = [] if MODERN else [("mcp-session-id", "s%d" % os.getpid())]
        self.begin(200, "application/json", [("content-length", str(len(body))), *session])
        self.wfile.write(body)

    def log_message(self, *words):
        pass


threading.Thread(target=watch, daemon=True).start()
if len(sys.argv) > 3:
    server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[3])), OverHttp)
    print(server.server_port, flush=True)
    server.serve_forever()


def put(message):
    with lock:
        print(json.dumps(message), flush=True)


if not MODERN:
    ears.append((None, None, put))
for line in sys.stdin:
    message = json.loads(line)
    if MODERN and message.get("method") == "subscriptions/listen":
        listen(message, put)
    elif "id" in message and "method" in message:
        put(answer(message))
