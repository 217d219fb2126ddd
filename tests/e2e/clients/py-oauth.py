"""Signs in to a gate with the Python client: prints the address to open, reads where the browser was sent back to,
and prints one JSON verdict. The first access token is thrown away, so that the client must refresh. After the next
line, the grant is revoked: the client asks to sign in again, or the last verdict says that it did not have to.
"""

import json
import sys
from urllib.parse import parse_qs, urlsplit

import anyio
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientMetadata


class Storage:
    def __init__(self):
        self.tokens = None
        self.client = None

    async def get_tokens(self):
        return self.tokens

    async def set_tokens(self, tokens):
        self.tokens = tokens

    async def get_client_info(self):
        return self.client

    async def set_client_info(self, client):
        self.client = client


def say(value):
    print(json.dumps(value), flush=True)


async def show(address):
    say({"authorize": address})


async def came_back():
    line = await anyio.to_thread.run_sync(sys.stdin.readline)
    query = parse_qs(urlsplit(line.strip()).query)
    first = {name: values[0] for name, values in query.items()}
    return AuthorizationCodeResult(code=first["code"], state=first.get("state"), iss=first.get("iss"))


def provider(url, redirect, storage):
    metadata = OAuthClientMetadata(
        client_name="Python client",
        redirect_uris=[redirect],
        grant_types=["authorization_code", "refresh_token"],
        response_types=["code"],
        token_endpoint_auth_method="none",
    )
    return OAuthClientProvider(url, metadata, storage, redirect_handler=show, callback_handler=came_back)


async def tools(url, auth):
    async with create_mcp_http_client(auth=auth) as http_client:
        async with Client(streamable_http_client(url, http_client=http_client)) as client:
            return [tool.name for tool in (await client.list_tools()).tools]


async def main():
    url, redirect = sys.argv[1:3]
    storage = Storage()
    names = await tools(url, provider(url, redirect, storage))
    before = storage.tokens
    # A new process would know that this token has ended.
    storage.tokens = before.model_copy(update={"access_token": "tg_expired", "expires_in": -1})
    again = provider(url, redirect, storage)
    await again._initialize()
    again.context.update_token_expiry(storage.tokens)
    await tools(url, again)
    say({"tools": names, "refreshed": storage.tokens.refresh_token != before.refresh_token})
    await anyio.to_thread.run_sync(sys.stdin.readline)
    say({"tools": await tools(url, again)})


anyio.run(main)
