"""Clients with metadata documents, in a network of its own with names of its own: a gate fetches them over https.
Arguments: the program, a certificate for all names, its key. Prints one JSON object. Needs `unshare --net --mount`."""
import collections, hashlib, http.client, http.server, json, os, re, ssl, subprocess, sys, tempfile, threading
from urllib.parse import parse_qs, quote, urlencode, urlsplit

PROGRAM, CERTIFICATE, KEY = sys.argv[1:4]
PUBLIC, PRIVATE = "11.0.0.1", "10.0.0.9"
NAMES = {
    "client.example": [PUBLIC],
    "moved.example": [PUBLIC],
    "loopback.example": ["127.0.0.1"],
    "private.example": [PRIVATE],
    "metadata.example": ["169.254.169.254"],
    "mixed.example": ["127.0.0.1", PUBLIC],
}
REDIRECT = "https://client.example/callback"
VERIFIER = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
CHALLENGE = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"
requests = collections.Counter()


def network():
    hosts = tempfile.NamedTemporaryFile("w", delete=False)
    hosts.writelines(f"{address} {name}\n" for name, found in NAMES.items() for address in found)
    hosts.close()
    commands = ["ip link set lo up", f"ip address add {PUBLIC}/32 dev lo", f"ip address add {PRIVATE}/32 dev lo"]
    commands += ["ip address add 169.254.169.254/32 dev lo", f"mount --bind {hosts.name} /etc/hosts"]
    for command in commands:
        subprocess.run(command.split(), check=True)


class Host(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        requests[self.connection.getsockname()[0]] += 1
        host, path = self.headers["Host"], self.path
        if host == "moved.example":
            to = {"/outward": "https://client.example/client.json", "/inward": "https://loopback.example/client.json"}
            self.send_response(302)
            self.send_header("Location", to[path])
            self.send_header("Content-Length", "0")
            return self.end_headers()
        document = {"client_id": f"https://{host}{path}", "client_name": "Far client", "redirect_uris": [REDIRECT]}
        if path == "/liar.json":
            document["client_id"] = "https://client.example/client.json"
        if path == "/large.json":
            document["logo_uri"] = "https://client.example/" + "x" * 6000
        if path == "/secret.json":
            document["client_secret"] = "x"
        if path == "/like-chatgpt.json":
            document["token_endpoint_auth_method"] = "private_key_jwt"
            document["token_endpoint_auth_methods_supported"] = ["none", "private_key_jwt"]
        body = json.dumps(document).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def serve(address):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, KEY)
    server = http.server.ThreadingHTTPServer((address, 443), Host)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    threading.Thread(target=server.serve_forever, daemon=True).start()


class Gate:
    def __init__(self):
        words = [PROGRAM, "up", "--listen", "127.0.0.1:0", "--json"]
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        facts = json.loads(self.process.stdout.readline())
        self.address = urlsplit(facts["url"]).netloc
        self.origin = f"http://{self.address}"
        token = parse_qs(urlsplit(facts["dashboard"]).query)["token"][0]
        _, headers, _ = self.send("POST", "/sign-in", {"token": token})
        self.cookie = headers["Set-Cookie"].split(";")[0]

    def send(self, method, path, form=None, cookie=""):
        headers = {"Origin": self.origin, "Cookie": cookie}
        if form is not None:
            headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection = http.client.HTTPConnection(self.address, timeout=60)
        connection.request(method, path, urlencode(form) if form is not None else None, headers)
        reply = connection.getresponse()
        return reply.status, reply.headers, reply.read().decode()

    def authorize(self, client, redirect=REDIRECT):
        query = {"response_type": "code", "client_id": client, "redirect_uri": redirect, "state": "s"}
        query |= {"code_challenge": CHALLENGE, "code_challenge_method": "S256", "resource": f"{self.origin}/mcp"}
        return self.send("GET", f"/authorize?{urlencode(query, quote_via=quote)}", cookie=self.cookie)

    def sign_in(self, client, redirect=REDIRECT):
        """The tokens of this client, after the owner's consent."""
        status, headers, page = self.authorize(client, redirect)
        assert status == 200, page
        binding = headers["Set-Cookie"].split(";")[0]
        field = lambda name: re.search(f'name="{name}" value="([^"]*)"', page)[1].replace("&#38;", "&")
        form = {name: field(name) for name in ("csrf", "consent", "request")}
        form |= {"server": "demo", "policy:demo": "demo", "decision": "allow"}
        status, headers, body = self.send("POST", "/authorize/consent", form, f"{self.cookie}; {binding}")
        assert status == 303, body
        code = parse_qs(urlsplit(headers["Location"]).query)["code"][0]
        form = {"grant_type": "authorization_code", "code": code, "code_verifier": VERIFIER, "client_id": client}
        status, _, body = self.send("POST", "/token", form)
        return {"page": page, "status": status, "tokens": json.loads(body)}


network()
for address in (PUBLIC, PRIVATE, "127.0.0.1", "169.254.169.254"):
    serve(address)
gate = Gate()
try:
    good = [f"https://{name}" for name in ("client.example/client.json", "client.example/like-chatgpt.json", "mixed.example/client.json")]
    signed_in = {client: gate.sign_in(client) for client in good}
    copied = "https://claude.ai/oauth/mcp-oauth-client-metadata"
    signed_in[copied] = gate.sign_in(copied, "https://claude.ai/api/mcp/auth_callback")
    fetched = dict(requests)
    refused = {}
    for client in (
        "https://loopback.example/client.json",
        "https://private.example/client.json",
        "https://metadata.example/latest/meta-data",
        "https://moved.example/outward",
        "https://moved.example/inward",
        "https://client.example/liar.json",
        "https://client.example/large.json",
        "https://client.example/secret.json",
        "https://unknown.example/client.json",
    ):
        status, headers, page = gate.authorize(client)
        refused[client] = {"status": status, "location": headers["Location"], "page": page}
    print(json.dumps({"signed_in": signed_in, "refused": refused, "requests": requests, "fetched": fetched}))
finally:
    gate.process.terminate()
    gate.process.wait()
