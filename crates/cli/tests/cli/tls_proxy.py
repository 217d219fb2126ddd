"""A reverse proxy with TLS, and the mistakes that people make with one. Arguments: certificate, key. Reads one command
per line (`target PORT`, `fault NAME`) and answers `ok`."""
import http.client, http.server, json, ssl, sys, threading

state = {"port": 0, "fault": "none"}
# Answers of the proxy itself: path prefix to status, for requests without a token.
OWN = {
    "guarded": ("/mcp", 403),
    "guarded_well_known": ("/.well-known/", 401),
    "closed_registration": ("/register", 403),
    "no_way_to_be_known": ("/register", 403),
    "login_everywhere": ("/", 401),
    "no_route": ("/authorize", 404),
    "redirected": ("/mcp", 302),
    "no_well_known": ("/.well-known/", 404),
    "no_resource": ("/.well-known/oauth-protected-resource", 404),
    "no_metadata": ("/.well-known/oauth-authorization-server", 404),
    "page_for_metadata": ("/.well-known/oauth-authorization-server", 200),
    "no_registration": ("/register", 405),
    "login_of_its_own": ("/authorize", 302),
    "no_token": ("/token", 403),
    "gate_is_down": ("/", 502),
}


class Proxy(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self, status, headers, body):
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def forward(self):
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        fault = state["fault"]
        prefix, status = OWN.get(fault, ("", 0))
        if prefix and self.path.startswith(prefix):
            kind = [("Content-Type", "text/html"), ("Location", "https://login.example/")]
            return self.answer(status, kind, b"<p>an answer of the proxy</p>")
        if fault == "no_app_schemes" and "redirect_uri=cursor" in self.path:
            return self.answer(403, [("Content-Type", "text/html")], b"<p>blocked by a rule</p>")
        if fault == "no_urls_in_query" and "client_id=https" in self.path:
            return self.answer(403, [("Content-Type", "text/html")], b"<p>blocked by a rule</p>")
        if fault == "no_bots" and "Claude-User" in self.headers.get("User-Agent", ""):
            return self.answer(403, [("Content-Type", "text/html")], b"<p>no crawlers</p>")
        headers = {name.title(): value for name, value in self.headers.items() if name.lower() != "connection"}
        if fault == "host_of_the_gate":
            headers["Host"] = f"127.0.0.1:{state['port']}"
        if fault == "other_host":
            headers["Host"] = "inside.example"
        to = http.client.HTTPConnection("127.0.0.1", state["port"], timeout=60)
        to.request(self.command, self.path, body, headers)
        reply = to.getresponse()
        text = reply.read()
        drop = {"transfer-encoding", "content-length", "connection"}
        if fault == "no_challenge":
            drop.add("www-authenticate")
        if fault == "wrong_issuer" and self.path.startswith("/.well-known/oauth-authorization-server"):
            text = text.replace(b'"issuer":"https://gate.example"', b'"issuer":"https://inside.example"')
        if fault == "wrong_resource" and self.path.startswith("/.well-known/oauth-protected-resource"):
            text = text.replace(b"https://gate.example/mcp", b"https://gate.example/")
        if fault == "plain_endpoints" and self.path.startswith("/.well-known/oauth-authorization-server"):
            text = text.replace(b"https://gate.example/token", b"http://gate.example/token")
        if fault == "no_pkce" and self.path.startswith("/.well-known/oauth-authorization-server"):
            text = text.replace(b"code_challenge_methods_supported", b"x_methods_supported")
        if fault in ("no_documents", "no_way_to_be_known") and self.path.startswith("/.well-known/oauth-authorization-server"):
            text = text.replace(b'"client_id_metadata_document_supported":true', b'"x":true')
        if fault == "no_offline_access" and self.path.startswith("/.well-known/oauth-authorization-server"):
            text = text.replace(b'"offline_access"', b'"other"')
        kept = [(name, value) for name, value in reply.getheaders() if name.lower() not in drop]
        to.close()
        return self.answer(reply.status, kept, text)

    do_GET = do_POST = do_DELETE = do_OPTIONS = do_HEAD = forward

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass


certificate, key = sys.argv[1:3]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(certificate, key)
server = Server(("127.0.0.1", 0), Proxy)
# The handshake belongs to the thread of its connection, not to the one that accepts.
server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(json.dumps({"port": server.server_address[1]}), flush=True)
for line in sys.stdin:
    word, value = line.split()
    state["port" if word == "target" else "fault"] = int(value) if word == "target" else value
    print("ok", flush=True)
