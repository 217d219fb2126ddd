"""An MCP server that goes on for ever: `slow.py stdio` or `slow.py http FOLDER` (see leaky.py).

The tool `drip` sends progress (or, over HTTP as JSON, blanks) for a minute before it answers. Its lists of
resources repeat a cursor, and it has more tools than the gate takes when asked for them as `many`.
"""
import http.server, json, os, sys, time

DRIPS, PAUSE = 600, 0.1


def result_of(message, many):
    method = message["method"]
    if method == "initialize":
        return {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {}},
            "serverInfo": {"name": "slow", "version": "1"},
        }
    if method == "tools/list":
        count = 10_001 if many else 1
        return {"tools": [{"name": "drip%d" % n if n else "drip", "inputSchema": {"type": "object"}} for n in range(count)]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "late"}]}
    return {}


def answer(message, many=False):
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result_of(message, many)})


def progress(message):
    token = message["params"].get("_meta", {}).get("progressToken", "t")
    params = {"progressToken": token, "progress": time.time()}
    return json.dumps({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})


def is_call(message):
    return message.get("method") == "tools/call"


def stdio(many):
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        for _ in range(DRIPS if is_call(message) else 0):
            print(progress(message), flush=True)
            time.sleep(PAUSE)
        print(answer(message, many), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def do_GET(self):
        self.begin(405, "text/plain", 0)

    def begin(self, status, kind, length=None):
        self.send_response(status)
        self.send_header("content-type", kind)
        if length is None:
            self.send_header("connection", "close")
        else:
            self.send_header("content-length", str(length))
        self.end_headers()

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if "id" not in message or "method" not in message:
            return self.begin(202, "text/plain", 0)
        text = answer(message)
        if not is_call(message):
            self.begin(200, "application/json", len(text))
            return self.wfile.write(text.encode())
        events = self.path == "/events"
        self.begin(200, "text/event-stream" if events else "application/json")
        try:
            for _ in range(DRIPS):
                self.wfile.write(("data: %s\n\n" % progress(message)).encode() if events else b" ")
                self.wfile.flush()
                time.sleep(PAUSE)
            self.wfile.write(("data: %s\n\n" % text if events else text).encode())
        except OSError:
            pass


def listen(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(folder + "/port.new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename(folder + "/port.new", folder + "/port")
    server.serve_forever()


listen(sys.argv[2]) if sys.argv[1] == "http" else stdio(len(sys.argv) > 2)
