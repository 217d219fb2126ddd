"""An MCP server that shows the secrets it was given in everything it says.

`leaky.py stdio` speaks on its standard streams and knows API_KEY. `leaky.py http FOLDER` listens on a free
port, writes it to FOLDER/port, and knows the Authorization header: `/json` answers with JSON, `/events` with
event streams, `/legacy` with HTTP+SSE of 2024-11-05.
"""
import base64, http.server, json, os, queue, sys, threading, urllib.parse


def forms(key):
    raw = key.encode()
    environment = "A=1\nAPI_KEY=%s\nB=2\n" % key
    return {
        "plain": key,
        "environment": environment,
        "json": json.dumps({"API_KEY": key}),
        "base64": base64.b64encode(raw).decode(),
        "base64url": base64.urlsafe_b64encode(b"x" + raw).decode(),
        "wrapped": base64.encodebytes(b"y" * 50 + environment.encode()).decode(),
        "percent": urllib.parse.quote(key, safe=""),
        "hex": raw.hex(),
    }


def answer(message, key):
    """The messages that answer one message."""
    method, id = message.get("method"), message.get("id")
    if id is None or method is None:
        return []
    def result(value):
        return {"jsonrpc": "2.0", "id": id, "result": value}
    if method == "initialize":
        return [result({
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {"tools": {}, "resources": {}, "prompts": {}, "logging": {}},
            "serverInfo": {"name": "leaky", "version": "1", "title": key},
            "instructions": "my key is " + key,
        })]
    if method == "tools/list":
        schema = {"type": "object", "description": key}
        return [result({"tools": [
            {"name": name, "description": "uses " + key, "inputSchema": schema} for name in ("show", "fail", "raise")
        ]})]
    if method == "resources/list":
        return [result({"resources": [{"uri": "a://b", "name": key}]})]
    if method == "resources/read":
        return [result({"contents": [{"uri": "a://b", "text": json.dumps(forms(key))}]})]
    if method == "prompts/get":
        return [result({"messages": [{"role": "user", "content": {"type": "text", "text": key}}]})]
    if method == "tools/call":
        name = message["params"]["name"]
        if name == "fail":
            return [{"jsonrpc": "2.0", "id": id, "error": {"code": -32000, "message": key, "data": forms(key)}}]
        token = message["params"].get("_meta", {}).get("progressToken")
        news = [{"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": forms(key)}}]
        if token is not None:
            progress = {"progressToken": token, "progress": 1, "message": key}
            news.append({"jsonrpc": "2.0", "method": "notifications/progress", "params": progress})
        all = forms(key)
        return news + [result({
            "content": [{"type": "text", "text": text} for text in all.values()],
            "structuredContent": {"forms": all, key: [key]},
        })]
    return [{"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": "no"}}]


def stdio():
    key = os.environ["API_KEY"]
    print("my key is", key, file=sys.stderr, flush=True)
    for line in sys.stdin:
        for message in answer(json.loads(line), key):
            print(json.dumps(message), flush=True)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    channels = {}

    def log_message(self, *words):
        pass

    def key(self):
        return self.headers["Authorization"].split(" ", 1)[1]

    def whole(self, status, kind, body):
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        if self.path != "/legacy":
            return self.whole(405, "text/plain", b"")
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        channel = self.channels.setdefault("/post%d" % len(self.channels), queue.Queue())
        self.wfile.write(b"event: endpoint\ndata: /post%d\n\n" % (len(self.channels) - 1))
        while True:
            text = json.dumps(channel.get())
            self.wfile.write(("event: message\ndata: %s\n\n" % text).encode())

    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        key = self.key()
        if self.path == "/legacy":
            return self.whole(405, "text/plain", b"")
        if message.get("params", {}).get("name") == "raise":
            return self.whole(500, "text/plain", ("no luck with " + key).encode())
        messages = answer(message, key)
        if self.path.startswith("/post"):
            for message in messages:
                self.channels[self.path].put(message)
            return self.whole(202, "text/plain", b"")
        if not messages:
            return self.whole(202, "text/plain", b"")
        if self.path == "/events":
            text = "".join("data: %s\n\n" % json.dumps(message) for message in messages)
            return self.whole(200, "text/event-stream", text.encode())
        self.whole(200, "application/json", json.dumps(messages[-1]).encode())


def listen(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    with open(folder + "/port.new", "w") as file:
        file.write(str(server.server_address[1]))
    os.rename(folder + "/port.new", folder + "/port")
    server.serve_forever()


stdio() if sys.argv[1] == "stdio" else listen(sys.argv[2])
