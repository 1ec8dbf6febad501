"""A server of tools behind OAuth, made with the official Python package, which also brings the authorization server.

Its first argument is a folder: it writes its port and a log of what it granted there, and reads what it is to do:
`lifetime` (seconds of an access token), `refuse` (refresh tokens count no more), `downgrade` (tokens lack the permission),
`deny` (the user says no), `forget` (all access tokens, once), `slow` (a renewal takes a second). Further arguments: `stateless` (it takes no handshake), `port=N`, and `base=URL`, the address at which clients reach it.
"""

import json
import pathlib
import secrets
import socket
import sys
import time

import anyio
import uvicorn
from mcp.server.auth.provider import (
    AccessToken, AuthorizationCode, OAuthAuthorizationServerProvider, RefreshToken, TokenError, construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthToken

NOTES = pathlib.Path(sys.argv[1])
SCOPES = ["read", "write", "offline_access"]


def note(words):
    with open(NOTES / "log", "a", encoding="utf-8") as log:
        log.write(words + "\n")


def wants(name):
    return (NOTES / name).exists()


class Provider(OAuthAuthorizationServerProvider):
    """Approves at once, and changes a refresh token at each use."""

    def __init__(self):
        self.clients, self.codes, self.access, self.refresh = {}, {}, {}, {}

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        note(f"registered {client_info.client_name} {client_info.application_type} {client_info.token_endpoint_auth_method}")
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        note(f"authorized {' '.join(params.scopes or [])} for {params.resource}")
        if wants("deny"):
            return construct_redirect_uri(str(params.redirect_uri), error="access_denied", state=params.state)
        code = "code-" + secrets.token_hex(16)
        self.codes[code] = AuthorizationCode(
            code=code, scopes=params.scopes or ["read"], expires_at=time.time() + 60, client_id=client.client_id,
            code_challenge=params.code_challenge, redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly, resource=params.resource)
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    def grant(self, client, scopes, resource):
        lifetime = float((NOTES / "lifetime").read_text()) if wants("lifetime") else 3600
        access, refresh = "access-" + secrets.token_hex(16), "refresh-" + secrets.token_hex(16)
        self.access[access] = AccessToken(
            token=access, client_id=client.client_id, scopes=scopes, expires_at=int(time.time() + lifetime), resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client.client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, expires_in=int(lifetime), refresh_token=refresh, scope=" ".join(scopes))

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        note("exchanged")
        return self.grant(client, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        if wants("slow"):
            note("asked")
            await anyio.sleep(1)
        if refresh_token not in self.refresh:
            note("reused")
        return None if wants("refuse") else self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        if self.refresh.pop(refresh_token.token, None) is None:
            raise TokenError("invalid_grant", "it was used before")
        note("renewed")
        return self.grant(client, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        if wants("forget"):
            (NOTES / "forget").unlink()
            self.access.clear()
        found = self.access.get(token)
        return found.model_copy(update={"scopes": []}) if found and wants("downgrade") else found

    async def revoke_token(self, token):
        note("revoked")
        self.access.pop(token.token, None)
        self.refresh.pop(token.token, None)


class WithoutHandshake:
    """Refuses the handshake, as a server of the newer era does."""

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] != "http" or scope["path"] != "/mcp" or b"authorization" not in dict(scope["headers"]):
            return await self.app(scope, receive, send)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        if b'"initialize"' in body:
            error = {"jsonrpc": "2.0", "id": json.loads(body)["id"], "error": {"code": -32601, "message": "no"}}
            await send({"type": "http.response.start", "status": 400, "headers": [(b"content-type", b"application/json")]})
            return await send({"type": "http.response.body", "body": json.dumps(error).encode()})
        given = iter([{"type": "http.request", "body": body, "more_body": False}])
        async def again():
            return next(given, None) or await receive()
        await self.app(scope, again, send)


options = dict(word.partition("=")[::2] for word in sys.argv[2:])
listener = socket.create_server(("127.0.0.1", int(options.get("port", 0))))
base = options.get("base") or f"http://127.0.0.1:{listener.getsockname()[1]}"
server = MCPServer(
    "guarded", auth_server_provider=Provider(),
    auth=AuthSettings(
        issuer_url=base, resource_server_url=f"{base}/mcp", required_scopes=["read"], validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=SCOPES, default_scopes=["read"]),
        revocation_options=RevocationOptions(enabled=True)))


@server.tool()
def add(first: int, second: int) -> int:
    """Adds two numbers."""
    return first + second


app = server.streamable_http_app()
if "stateless" in options:
    app = WithoutHandshake(app)
(NOTES / "port.new").write_text(str(listener.getsockname()[1]))
(NOTES / "port.new").rename(NOTES / "port")
uvicorn.Server(uvicorn.Config(app, log_level="error")).run(sockets=[listener])
