"""Writes a bundle for tests: `bundles.py KIND FILE`. `good` is a server with settings; every other kind is hostile or
broken in one way."""
import json, stat, sys, zipfile

# A server in a shell, as small as a compiled one could be.
PROGRAM = r'''#!/bin/sh
while IFS= read -r line; do
  id=$(printf '%s' "$line" | sed -n 's/.*"id":\("[^"]*"\|[0-9]*\).*/\1/p')
  version=$(printf '%s' "$line" | sed -n 's/.*"protocolVersion":"\([^"]*\)".*/\1/p')
  case "$line" in
    *'"method":"initialize"'*) result='{"protocolVersion":"'$version'","capabilities":{"tools":{}},"serverInfo":{"name":"b","version":"1"}}' ;;
    *'"method":"tools/list"'*) result='{"tools":[{"name":"where","inputSchema":{"type":"object"}}]}' ;;
    *'"method":"tools/call"'*) result='{"content":[{"type":"text","text":"'$(basename "$PWD")' '$1'"}]}' ;;
    *'"id"'*) printf '{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no"}}\n' "$id"; continue ;;
    *) continue ;;
  esac
  printf '{"jsonrpc":"2.0","id":%s,"result":%s}\n' "$id" "$result"
done
'''

SERVER = '''import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if "id" not in message:
        continue
    method, answer = message["method"], {"jsonrpc": "2.0", "id": message["id"]}
    if method == "initialize":
        answer["result"] = {"protocolVersion": message["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "b", "version": "1"}}
    elif method == "tools/list":
        said = " ".join(sys.argv[1:]) + " " + os.environ.get("PLACE", "-") + " key:" + str(len(os.environ.get("API_KEY", ""))) + " cwd:" + os.path.basename(os.getcwd())
        answer["result"] = {"tools": [{"name": "look", "description": said, "inputSchema": {"type": "object"}}]}
    else:
        answer["error"] = {"code": -32601, "message": "no"}
    print(json.dumps(answer), flush=True)
'''


def manifest(**changes):
    made = {
        "manifest_version": "0.3",
        "name": "My Bundle",
        "version": "1.2.3",
        "description": "d",
        "author": {"name": "A. Author"},
        "server": {
            "type": "python",
            "entry_point": "server/main.py",
            "mcp_config": {
                "command": "python",
                "args": ["${__dirname}/server/main.py", "${user_config.folders}", "--max=${user_config.max}"],
                "env": {"API_KEY": "${user_config.key}", "PLACE": "${HOME}/x", "UNSET": "${user_config.unset}"},
            },
        },
        "user_config": {
            "key": {"type": "string", "sensitive": True, "required": True},
            "folders": {"type": "directory", "multiple": True, "required": True, "default": ["${HOME}/a", "${HOME}/b"]},
            "max": {"type": "number", "default": 10, "min": 1, "max": 100},
            "unset": {"type": "string"},
        },
    }
    made.update(changes)
    return json.dumps(made)


kind, path = sys.argv[1], sys.argv[2]
files = [("manifest.json", manifest()), ("server/main.py", SERVER), ("server/lib/x.txt", "x")]
server = json.loads(manifest())["server"]
if kind in ("binary", "binary-command"):
    launch = {"command": "${__dirname}/bin/server", "args": ["${user_config.max}"]}
    server = {"type": "binary", "entry_point": "bin/server", "mcp_config": launch if kind == "binary-command" else None}
    config = {"max": {"type": "number", "default": 10}}
    files = [("manifest.json", manifest(name=kind, server=server, user_config=config)), ("bin/server", PROGRAM), ("bin/other", "x")]
elif kind == "no_manifest":
    files = files[1:]
elif kind == "bad_json":
    files[0] = ("manifest.json", "{")
elif kind == "version":
    files[0] = ("manifest.json", manifest(manifest_version="9.0"))
elif kind == "platform":
    files[0] = ("manifest.json", manifest(compatibility={"platforms": ["win32"]}))
elif kind == "no_entry_point":
    files = files[:1]
elif kind == "entry_point_outside":
    files[0] = ("manifest.json", manifest(server={"type": "binary", "entry_point": "../../bin/sh"}))
elif kind == "command_outside":
    server["mcp_config"]["command"] = "server/../../../bin/sh"
    files[0] = ("manifest.json", manifest(server=server))
elif kind == "unknown_variable":
    server["mcp_config"]["args"] = ["${SECRET_OF_THE_HOST}"]
    files[0] = ("manifest.json", manifest(server=server))
elif kind == "secret_in_argument_text":
    server["mcp_config"]["args"] = ["--key=${user_config.key}"]
    files[0] = ("manifest.json", manifest(server=server))
elif kind == "dot_dot":
    files.append(("../evil.txt", "evil"))
elif kind == "inner_dot_dot":
    files.append(("server/../../evil.txt", "evil"))
elif kind == "absolute":
    files.append(("/tmp/evil.txt", "evil"))
elif kind == "backslash":
    files.append(("server\\..\\..\\evil.txt", "evil"))
elif kind == "twice":
    files.append(("SERVER/main.py", "evil"))
elif kind == "same_name":
    files.append(("server/main.py", "evil"))
elif kind == "two_manifests":
    files.append(("manifest.json", manifest(name="other")))
elif kind == "drive":
    files.append(("C:/evil.txt", "evil"))
elif kind == "below_a_link":
    files.append(("server/link/evil.txt", "evil"))
elif kind == "deep":
    files.append(("a/" * 100 + "x", "x"))
elif kind == "long_name":
    files.append(("a" * 2_000, "x"))
elif kind == "many_settings":
    config = {"k%d" % n: {"type": "string"} for n in range(101)}
    files[0] = ("manifest.json", manifest(user_config=config))
elif kind == "below_a_file":
    files.append(("server/main.py/x", "evil"))
elif kind == "many":
    files += [("f/%d" % n, "") for n in range(50_001)]
elif kind == "huge_manifest":
    files[0] = ("manifest.json", manifest(long_description="x" * (2 << 20)))

with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as bundle:
    for name, text in files:
        info = zipfile.ZipInfo(name)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = (stat.S_IFREG | 0o644) << 16
        bundle.writestr(info, text)
    if kind in ("link", "below_a_link"):
        info = zipfile.ZipInfo("server/link")
        info.external_attr = (stat.S_IFLNK | 0o777) << 16
        bundle.writestr(info, "/etc/passwd")
    if kind == "pipe":
        info = zipfile.ZipInfo("server/pipe")
        info.external_attr = (stat.S_IFIFO | 0o666) << 16
        bundle.writestr(info, "")
    if kind in ("bomb", "lying_bomb"):
        with bundle.open("server/bomb", "w", force_zip64=True) as bomb:
            for _ in range(64):
                bomb.write(b"\0" * (1 << 20))
if kind == "lying_bomb":
    # The directory claims a small size; what comes out is counted.
    data = bytearray(open(path, "rb").read())
    at = data.rindex(b"PK\x01\x02", 0, data.rindex(b"server/bomb"))
    data[at + 24 : at + 28] = (1000).to_bytes(4, "little")
    open(path, "wb").write(data)
if kind == "not_a_zip":
    open(path, "w").write("hello")
