"""A server with an MCP App for tests: `apps.py NAME PAGE`. Tool `show` has the page `ui://NAME/view.html`, `refresh` is for
the app alone, and `old` names its page with the older key. The page's text is the content of PAGE. Clients that do not
declare MCP Apps see no app tools. The pages are not in the list of resources."""
import json, sys

NAME, PAGE = sys.argv[1], sys.argv[2]
EXTENSION = "io.modelcontextprotocol/ui"
apps = False


def tools():
    schema = {"type": "object"}
    plain = [{"name": "plain", "inputSchema": schema}]
    view, shared = "ui://%s/view.html" % NAME, "ui://shared/view.html"
    shown = [
        {"name": "show", "inputSchema": schema, "_meta": {"ui": {"resourceUri": view}}},
        {"name": "refresh", "inputSchema": schema, "_meta": {"ui": {"resourceUri": view, "visibility": ["app"]}}},
        {"name": "old", "inputSchema": schema, "_meta": {"ui/resourceUri": "ui://%s/old.html" % NAME}},
        {"name": "shared_" + NAME, "inputSchema": schema, "_meta": {"ui": {"resourceUri": shared}}},
    ]
    return plain + (shown if apps else [])


def result(method, params):
    global apps
    if method == "initialize":
        apps = EXTENSION in params.get("capabilities", {}).get("extensions", {})
        offers = {"tools": {}, "resources": {}}
        return {"protocolVersion": params["protocolVersion"], "capabilities": offers, "serverInfo": {"name": NAME, "version": "1"}}
    if method == "tools/list":
        return {"tools": tools()}
    if method == "resources/list":
        return {"resources": []}
    if method == "resources/read":
        with open(PAGE) as page:
            text = page.read()
        meta = {"ui": {"csp": {"connectDomains": ["https://%s.example" % NAME]}}}
        return {"contents": [{"uri": params["uri"], "mimeType": "text/html;profile=mcp-app", "text": text, "_meta": meta}]}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": "%s %s" % (NAME, params["name"])}]}
    return None


for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message or "method" not in message:
        continue
    found = result(message["method"], message.get("params") or {})
    answer = {"jsonrpc": "2.0", "id": message["id"]}
    if found is None:
        answer["error"] = {"code": -32601, "message": "no such method"}
    else:
        answer["result"] = found
    print(json.dumps(answer), flush=True)
