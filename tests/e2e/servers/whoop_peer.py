"""Runs the public `whoop-mcp` against a stand-in: it has no setting for its address.

`whoop_peer.py tokens` reads a token response from standard input and writes it where the server looks
for it, below HOME. `whoop_peer.py serve ORIGIN` starts the server with ORIGIN in place of WHOOP.
"""

import json
import os
import sys
from datetime import datetime, timedelta
from pathlib import Path


def keep_tokens():
    from cryptography.fernet import Fernet

    answer = json.load(sys.stdin)
    folder = Path(os.environ["HOME"]) / ".whoop-mcp-server"
    folder.mkdir(parents=True, exist_ok=True)
    key = Fernet.generate_key()
    seal = Fernet(key)
    # The server reads these times as local ones without a zone.
    now = datetime.now()
    tokens = {
        "access_token": seal.encrypt(answer["access_token"].encode()).decode(),
        "refresh_token": seal.encrypt(answer["refresh_token"].encode()).decode(),
        "token_type": answer["token_type"],
        "expires_at": (now + timedelta(seconds=answer["expires_in"])).isoformat(),
        "created_at": now.isoformat(),
    }
    for name, content in ((".encryption_key", key), ("tokens.json", json.dumps(tokens).encode())):
        path = folder / name
        path.write_bytes(content)
        path.chmod(0o600)


def serve(origin):
    # The other modules take the addresses from here when they are imported.
    import config

    config.WHOOP_API_BASE = f"{origin}/developer/v2"
    for name in ("WHOOP_OAUTH_TOKEN_URL", "OAUTH_TOKEN_URL", "OAUTH_REFRESH_URL"):
        setattr(config, name, f"{origin}/oauth/oauth2/token")

    import whoop_mcp_server

    whoop_mcp_server.main()


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["tokens"]:
            keep_tokens()
        case ["serve", origin]:
            serve(origin)
        case _:
            sys.exit("usage: whoop_peer.py tokens | serve ORIGIN")
