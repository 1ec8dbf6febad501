"""The service as it is in November 2026, on loopback: sign-in, models, usage, and answers over HTTP and WebSocket.

It shares no code with `chappie simulator`, and takes nothing on trust: a request that is not as the real client 0.163.0 sends
it is refused, and `service.refusals` says why in words. It answers with everything that a client must bear: members and events
that no one has heard of, commentary before the answer, a turn state, calls in a namespace.

The model obeys the last message: `reply: TEXT`, `plain: TEXT` (without a phase), `call NAME {…}` (a line for each call),
`go on N` (it ends N responses in the middle of its turn), `cancelled: TEXT` (an event in the middle that ends nothing). To
anything else it answers with what it has seen.
"""

import base64
import contextlib
import ctypes
import hashlib
import http.server
import itertools
import json
import re
import secrets
import struct
import threading
import time
import urllib.parse
import zlib

from counterparts import CLIENT_ID

OLDEST_VERSION = (0, 163, 0)
# An empty request asks for nothing, so it may be sent to find out whether the endpoint is there.
EMPTY_IS_REFUSED = {"POST /backend-api/codex/alpha/search", "POST /backend-api/codex/images/generations"}
LITE_HEADER = "x-openai-internal-codex-responses-lite"
LITE_METADATA = "ws_request_header_x_openai_internal_codex_responses_lite"
TURN_STATE = "x-codex-turn-state"
COMMENTARY = "Let me see what this is about. "
GPT_6 = ["low", "medium", "high", "xhigh", "max", "ultra"]
# slug: priority, default effort, efforts, comp_hash, replacement, and whether it wants the lite form.
CATALOGUE = {
    "gpt-6.1-sol": (1, "low", GPT_6, "3000", None, True),
    "gpt-6-astra": (2, "low", GPT_6, "3000", None, True),
    "gpt-6-sol": (3, "medium", GPT_6, "3000", None, True),
    "gpt-6-luna": (4, "medium", GPT_6[:5], "3000", None, True),
    "gpt-5.6-sol": (5, "low", GPT_6, "3000", "gpt-6-sol", True),
    "gpt-5.6-terra": (8, "medium", GPT_6, "3000", "gpt-6-sol", True),
    "gpt-5.6-luna": (9, "medium", GPT_6[:5], "3000", "gpt-6-luna", True),
    "gpt-5.5": (13, "medium", ["low", "medium", "high", "xhigh"], "2911", "gpt-6-sol", False),
}
PLANS = {
    "plus": [slug for slug in CATALOGUE if slug != "gpt-5.5"],
    "free": ["gpt-6-luna", "gpt-5.6-luna"],
    "go": ["gpt-6-luna", "gpt-5.6-luna"],
    "enterprise": [slug for slug in CATALOGUE if slug not in ("gpt-5.5", "gpt-6.1-sol")],
}
BODY = {"model", "stream", "input", "tool_choice", "parallel_tool_calls", "reasoning", "store", "include", "prompt_cache_key",
        "text", "client_metadata", "service_tier", "stream_options", "access_programs"}
ITEMS = {
    "additional_tools": {"type", "id", "role", "tools"},
    "message": {"type", "id", "role", "content", "phase", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "function_call": {"type", "id", "name", "namespace", "arguments", "call_id", "status"},
    "function_call_output": {"type", "id", "name", "namespace", "call_id", "output", "status"},
    "custom_tool_call": {"type", "id", "name", "namespace", "input", "call_id", "status"},
    "custom_tool_call_output": {"type", "id", "name", "namespace", "call_id", "output", "status"},
    "web_search_call": {"type", "id", "status", "action"},
    "compaction": {"type", "id", "encrypted_content"},
    "compaction_trigger": {"type"},
}
CONTENT = {"input_text": {"type", "text"}, "input_image": {"type", "image_url"}, "output_text": {"type", "text", "annotations", "logprobs"},
           "input_file": {"type", "filename", "file_data"}, "refusal": {"type", "refusal"}}
UUID_7 = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")
REFUSALS = {
    "account": (400, lambda slug: {"detail": f"The '{slug}' model is not supported when using Codex with a ChatGPT account."}),
    "version": (400, lambda slug: {"error": {"type": "invalid_request_error", "message":
                f"The '{slug}' model requires a newer version of Codex. Please upgrade to the latest app or CLI and try again."}}),
    "unknown": (404, lambda slug: {"error": {"message": f"Model not found {slug}", "type": "invalid_request_error",
                                            "param": "model", "code": None}}),
}
HOLD = "and then"  # An answer waits behind these words.
PAGE = b"<!DOCTYPE html><html><head><title>Just a moment...</title></head><body>Attention Required! | Cloudflare: you have been blocked.</body></html>"


class Refused(Exception):
    """An answer that is no success. `reason` is for the person who reads the test's output; None for what is no fault."""

    def __init__(self, status, body, reason=None, content_type="application/json", **headers):
        super().__init__(reason)
        self.status, self.body, self.reason, self.content_type, self.headers = status, body, reason, content_type, headers


def fault(reason, param=None, code=None):
    return Refused(400, {"error": {"message": reason, "type": "invalid_request_error", "param": param, "code": code}}, reason)


def demand(is_so, reason, param=None):
    if not is_so:
        raise fault(reason, param)


def token(claims):
    part = lambda value: base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    return ".".join([part({"alg": "RS256", "typ": "JWT"}), part(claims), secrets.token_urlsafe(40)])


def members(text):
    """The members of a JSON object, and the elements of its `input` as they were written."""
    parse, blank = json.JSONDecoder().raw_decode, re.compile(r"[ \t\r\n]*")
    after = lambda place, skipped="": blank.match(text, place + len(skipped)).end()
    whole, written, place = json.loads(text), [], after(0, "{")
    while text[place] == '"':
        name, place = parse(text, place)
        place = after(after(place), ":")
        if name == "input" and text[place] == "[":
            place = after(place, "[")
            while text[place] != "]":
                begin, (_, place) = place, parse(text, place)
                written.append(text[begin:place])
                place = after(place)
                place = after(place, ",") if text[place] == "," else place
            place += 1
        else:
            _, place = parse(text, place)
        place = after(place)
        place = after(place, ",") if text[place] == "," else place
    return whole, written


def unzip(data):
    """A zstd frame, by the library that the system has."""
    library = ctypes.CDLL("libzstd.so.1")
    library.ZSTD_decompress.restype = ctypes.c_size_t
    buffer = ctypes.create_string_buffer(64 << 20)
    size = library.ZSTD_decompress(buffer, ctypes.c_size_t(len(buffer)), data, ctypes.c_size_t(len(data)))
    demand(not library.ZSTD_isError(ctypes.c_size_t(size)), "the body is no zstd frame")
    return buffer.raw[:size]


def noisy(value, noise, top=True):
    """What a newer service would say: members that are new everywhere; or members that are null; or arrays that are empty."""
    if isinstance(value, list):
        return [noisy(element, noise, False) for element in value]
    if not isinstance(value, dict):
        return value
    noised = {key: noisy(element, noise, False) for key, element in value.items()}
    optional = {"annotations", "logprobs", "input_tokens_details", "output_tokens_details", "incomplete_details", "metadata",
                "credits", "promo", "sequence_number", "secondary", "status"}
    if noise == "added":
        noised |= {"x_new": {"deep": [1, None, {"type": "new"}]}, "safety_buffering": None}
    elif noise == "null":
        noised |= {key: None for key in optional & noised.keys()} | {"x_new": None}
    elif noise == "empty":
        noised |= {key: [] for key in ("output", "annotations", "logprobs", "additional_rate_limits", "service_tiers") if key in noised}
    return noised


def agrees(given, issued):
    """Whether it is what was given out, or less of it."""
    if isinstance(given, dict) and isinstance(issued, dict):
        return all(name in issued and agrees(value, issued[name]) for name, value in given.items())
    if isinstance(given, list) and isinstance(issued, list):
        return len(given) == len(issued) and all(map(agrees, given, issued))
    return given == issued


class Conversation:
    """What the service has seen of a session: the last finished request and its answer, as (written, item) with None for the
    writing of items that only it has written."""

    def __init__(self):
        self.context, self.model, self.turn_state, self.is_in_turn, self.finished = [], None, None, False, set()
        self.window = 0


class November(contextlib.AbstractContextManager):
    """`with November(plan="plus") as service`. Settings may be changed while it runs."""

    def __init__(self, plan="plus", **settings):
        self.plan, self.models = plan, None
        self.is_ours = True  # whether the client is the one under test, which has a name of its own
        self.refuses = {}  # slug: "account", "version" or "unknown"
        self.frame_style = "error"  # or "detail": the member of a WebSocket error frame that holds the words
        self.blocks = set()  # "METHOD /path" that are answered with a page by what protects the service
        self.breaks = {}  # "METHOD /path": status
        self.upgrade_status, self.noise, self.metadata_event = 101, "added", "codex.response.metadata"
        self.pending_polls, self.lifetime, self.earliest_refresh = 0, 864_000, None
        self.usage_limit = False
        self.total_tokens = 110
        self.forgets = 0  # so many chained requests find that their predecessor is not there
        self.__dict__.update(settings)
        self.lock = threading.RLock()
        self.requests, self.refusals, self.log = [], [], []
        self.accounts, self.refresh_tokens, self.used, self.revoked, self.codes = {}, {}, set(), [], {}
        self.conversations, self.issued, self.counter = {}, {}, itertools.count(1)
        self.connections = 0
        self.released = threading.Event()
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (Handler,), {"service": self}))
        self.server.daemon_threads = True
        self.issuer = f"http://127.0.0.1:{self.server.server_port}"
        self.backend = self.issuer + "/backend-api"
        self.settings = {"CHAPPIE_ISSUER": self.issuer, "CHAPPIE_BACKEND": self.backend}

    def __enter__(self):
        threading.Thread(target=self.server.serve_forever, args=[0.05], daemon=True).start()
        return self

    def __exit__(self, *_):
        self.released.set()
        self.server.shutdown()
        self.server.server_close()

    def id(self, prefix):
        return f"{prefix}{next(self.counter):04}{secrets.token_hex(8)}"

    # What tests ask for.

    def of(self, kind=None, transport=None):
        """The requests for answers that were accepted: "turn", "prewarm" or "compaction"."""
        return [request for request in self.requests
                if request["reason"] is None and kind in (None, request["kind"]) and transport in (None, request["transport"])]

    @property
    def turns(self):
        return self.of("turn")

    def count(self, line):
        return sum(entry == line for entry in self.log)

    # Sign-in.

    def user_code(self, body):
        demand(body == {"client_id": CLIENT_ID}, f"deviceauth/usercode wants the client id alone: {sorted(body)}")
        device = self.id("deviceauth_")
        self.codes[device] = {"code": f"NOVE-{secrets.token_hex(3).upper()}", "polls": self.pending_polls}
        return {"device_auth_id": device, "user_code": self.codes[device]["code"], "interval": "1", "x_new": [1],
                "expires_at": time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(time.time() + 900))}

    def poll(self, body):
        device = self.codes.get(body.get("device_auth_id"))
        demand(device and body.get("user_code") == device["code"], "deviceauth/token knows no such code")
        if device["polls"] > 0:
            device["polls"] -= 1
            raise Refused(403, {"error": {"message": "Device authorization is pending. Please try again.",
                                          "type": "invalid_request_error", "code": "deviceauth_authorization_pending"}})
        device |= {"authorization": self.id("ac_"), "verifier": secrets.token_urlsafe(48)}
        return {"status": "success", "authorization_code": device["authorization"], "code_verifier": device["verifier"],
                "code_challenge": "challenge", "x_new": None}

    def exchange(self, body):
        if body.get("grant_type") == "authorization_code":
            found = [device for device in self.codes.values() if device.get("authorization") == body.get("code")]
            demand(found and body.get("code_verifier") == found[0]["verifier"], "oauth/token: the code or its verifier is wrong")
            demand(body.get("client_id") == CLIENT_ID and body.get("redirect_uri") == self.issuer + "/deviceauth/callback",
                   "oauth/token: the client id or the redirect address is wrong")
            found[0]["authorization"] = None
            return self.tokens(f"account-{secrets.token_hex(8)}", self.plan)
        demand(set(body) == {"client_id", "grant_type", "refresh_token"} and body["grant_type"] == "refresh_token",
               f"a refresh has three members, not {sorted(body)}")
        given = body["refresh_token"]
        known = self.refresh_tokens.pop(given, None)
        if not known:
            code = "refresh_token_reused" if given in self.used else "refresh_token_invalidated"
            raise Refused(401, {"error": {"message": "Your refresh token can't be used.", "type": "invalid_request_error",
                                          "param": None, "code": code}}, f"oauth/token: {code}")
        self.used.add(given)
        return self.tokens(*known)

    def tokens(self, account, plan):
        now = int(time.time())
        claims = {"https://api.openai.com/auth": {"chatgpt_account_id": account, "chatgpt_plan_type": plan, "x_new": {},
                                                  "chatgpt_user_id": "user-" + account, "user_id": "user-" + account},
                  "https://api.openai.com/profile": {"email": "someone@example.com", "email_verified": True},
                  "iss": "https://auth.openai.com", "iat": now, "exp": now + self.lifetime, "jti": secrets.token_hex(16)}
        access, renewed = token({**claims, "aud": ["https://api.openai.com/v1"]}), "rt.1." + secrets.token_urlsafe(60)
        self.accounts[access] = (account, plan, now + self.lifetime)
        self.refresh_tokens[renewed] = (account, plan)
        answer = {"id_token": token({**claims, "email": "someone@example.com", "aud": [CLIENT_ID]}), "access_token": access,
                  "refresh_token": renewed, "token_type": "Bearer", "expires_in": self.lifetime, "scope": "openid",
                  "x_new": {"deep": []}}
        return answer if self.earliest_refresh is None else {**answer, "earliest_refresh_at": self.earliest_refresh}

    def revoke(self, body):
        demand(body.get("client_id") == CLIENT_ID and body.get("token_type_hint") == "refresh_token" and body.get("token"),
               f"oauth/revoke wants token, hint and client id: {sorted(body)}")
        self.refresh_tokens.pop(body["token"], None)
        self.revoked.append(body["token"])
        return {}

    # What every signed request has.

    def account(self, headers):
        """(account, plan) of the bearer."""
        account, plan, ends = self.accounts.get(headers.get("authorization", "").removeprefix("Bearer "), (None, None, 0))
        if ends <= time.time():
            raise Refused(401, {"error": {"message": "Provided authentication token is expired. Please try signing in again.",
                                          "code": "token_expired"}, "status": 401})
        demand(headers.get("chatgpt-account-id") == account, "chatgpt-account-id is not the token's account")
        for name in ("originator", "user-agent") if self.is_ours else []:
            demand(headers.get(name), f"there is no {name}")
            demand("codex" not in headers[name].lower(), f"{name} is another program's: {headers[name]}")
        return account, plan

    def version(self, headers, slug=None):
        version = headers.get("version", "")
        if re.fullmatch(r"\d+\.\d+\.\d+", version) and tuple(map(int, version.split("."))) >= OLDEST_VERSION:
            return version
        raise Refused(404, REFUSALS["unknown"][1](slug or "?"), f"the header version is {version or 'not there'}")

    def identified(self, headers):
        """The headers of a conversation; gives its session, the model and the tier that are hinted at, and the window's number."""
        thread, session = headers.get("thread-id", ""), headers.get("session-id", "")
        for name, value in (("thread-id", thread), ("session-id", session)):
            demand(UUID_7.fullmatch(value), f"{name} is no UUIDv7: {value or 'not there'}")
        demand(headers.get("x-client-request-id") == thread, "x-client-request-id is not the thread's id")
        window = re.fullmatch(re.escape(thread) + r":(\d+)", headers.get("x-codex-window-id", ""))
        demand(window, "x-codex-window-id is not the thread's id with a number")
        hint = re.fullmatch(r"model=([^;]+)(?:;tier=([a-z]+))?", headers.get("x-codex-routing-hint", ""))
        demand(hint, "x-codex-routing-hint does not name the model")
        return session, hint.groups(), int(window[1])

    # Models and usage.

    def listed(self, plan):
        return PLANS[plan] if self.models is None else self.models

    def etag(self, plan):
        return f'W/"{hashlib.sha256(repr((plan, self.listed(plan))).encode()).hexdigest()[:16]}"'

    def model_list(self, headers, query):
        _, plan = self.account(headers)
        version = self.version(headers)
        demand(query.get("client_version") == [version], "client_version is not the header version")
        if headers.get("if-none-match") == self.etag(plan):
            raise Refused(304, None, etag=self.etag(plan))
        models = [self.model(slug, *CATALOGUE[slug]) for slug in self.listed(plan)]
        models.append({**self.model("gpt-hidden", *CATALOGUE["gpt-6-luna"]), "visibility": "hide", "priority": 0})
        return {"models": [noisy(model, self.noise) for model in reversed(models)], "x_new": []}

    @staticmethod
    def model(slug, priority, effort, efforts, comp_hash, replacement, is_lite):
        return {
            "slug": slug, "display_name": slug.upper(), "description": "A model.", "default_reasoning_level": effort,
            "supported_reasoning_levels": [{"effort": name, "description": name} for name in efforts], "shell_type": "unified_exec",
            "visibility": "list", "supported_in_api": True, "priority": priority, "additional_speed_tiers": [],
            "service_tiers": [{"id": "priority", "name": "Fast", "description": "It is faster."}], "default_service_tier": None,
            "availability_nux": None, "base_instructions": "Answer.", "model_messages": None,
            "upgrade": replacement and {"model": replacement, "migration_markdown": "It goes soon."},
            "include_skills_usage_instructions": False, "include_plugin_usage_instructions": False,
            "include_apps_usage_instructions": False, "default_reasoning_summary": "none", "support_verbosity": True,
            "default_verbosity": "low", "apply_patch_tool_type": "freeform", "web_search_tool_type": "text",
            "truncation_policy": {"mode": "tokens", "limit": 10_000}, "supports_image_detail_original": False,
            "context_window": 272_000, "max_context_window": 872_000, "comp_hash": comp_hash, "effective_context_window_percent": 95,
            "experimental_supported_tools": [], "input_modalities": ["text", "image"], "supports_search_tool": True,
            "supports_experimental_context": False, "use_responses_lite": is_lite, "supports_reasoning_effort_updates": False,
            "node_repl_auto_review_required": False, "node_repl_disabled": True, "model_specialty": None,
            "multi_agent_reasoning_effort": "xhigh" if slug == "gpt-6-sol" else None}

    def usage(self, headers):
        account, plan = self.account(headers)
        window = lambda percent, seconds: {"used_percent": percent, "limit_window_seconds": seconds, "reset_after_seconds": 1000,
                                           "reset_at": int(time.time()) + 1000}
        limit = lambda: {"allowed": True, "limit_reached": False, "primary_window": window(12, 18_000),
                         "secondary_window": window(3, 604_800)}
        reserve = {"limit_name": "Reserve", "metered_feature": "codex_reserve", "rate_limit": limit(),
                   "normal_model_slug": "gpt-6.1-sol"}
        return noisy({"user_id": "user-" + account, "account_id": account, "plan_type": plan, "rate_limit": limit(),
                      "credits": {"has_credits": False, "unlimited": False, "balance": "0"}, "spend_control": None,
                      "additional_rate_limits": [reserve], "rate_limit_reached_type": None}, self.noise)

    def workspaces(self, headers):
        """Only other clients ask where the account's workspace lives."""
        account, plan = self.account(headers)
        return {"accounts": [{"id": account, "plan_type": plan, "name": "Personal", "structure": "personal", "profile_picture_url": None,
                              "workspace_backend_origin": "https://chatgpt.com", "account_routing_override": "NO_CONSTRAINT"}],
                "account_ordering": [account], "default_account_id": account}

    # Responses: what is asked.

    def receive(self, text, headers, connection=None):
        """Takes a request for an answer and gives the events of the answer, once the request is found to be right."""
        body, written = members(text)
        transport = "sse" if connection is None else "websocket"
        items = body.get("input") or []
        kind = ("prewarm" if body.get("generate") is False else
                "compaction" if items and items[-1].get("type") == "compaction_trigger" else "turn")
        record = {"transport": transport, "kind": kind, "body": body, "headers": dict(headers), "reason": None,
                  "connection": connection and connection["number"]}
        with self.lock:
            self.requests.append(record)
            try:
                return self.accept(record, body, written, headers, connection)
            except Refused as refused:
                record["reason"] = refused.reason or f"status {refused.status}"
                raise

    def accept(self, record, body, written, headers, connection):
        account, plan = self.account(headers)
        slug = body.get("model")
        self.version(headers, slug)
        session, hinted, window = self.identified(headers)
        demand(hinted == (slug, body.get("service_tier")), f"x-codex-routing-hint names {hinted}, the body {slug}")
        if slug in self.refuses or slug not in self.listed(plan):
            status, words = REFUSALS[self.refuses.get(slug, "account")]
            raise Refused(status, words(slug))
        if self.usage_limit:
            raise Refused(429, {"error": {"type": "usage_limit_reached", "message": "The usage limit has been reached",
                                          "plan_type": plan, "resets_at": int(time.time()) + 3600, "resets_in_seconds": 3600}})
        _, _, efforts, comp_hash, _, takes_lite = CATALOGUE[slug]
        metadata = body.get("client_metadata", {})
        marker = headers.get(LITE_HEADER) if connection is None else metadata.get(LITE_METADATA)
        # Every model takes the full form, too, and runs the service's own tools in it alone.
        is_lite = takes_lite and not (marker is None and "tools" in body)
        if is_lite and "tools" in body:
            raise fault("Unsupported value: tools stand in additional_tools", "tools", "unsupported_value")
        demand(all(isinstance(value, str) for value in metadata.values()), "client_metadata holds strings")
        if connection is None:
            demand(headers.get("accept") == "text/event-stream", "accept is not text/event-stream")
            demand((headers.get(LITE_HEADER) == "true") == is_lite, f"{LITE_HEADER} is {headers.get(LITE_HEADER)}")
            state, allowed = headers.get(TURN_STATE), BODY
        else:
            demand((metadata.get(LITE_METADATA) == "true") == is_lite, f"client_metadata.{LITE_METADATA} is {metadata.get(LITE_METADATA)}")
            demand(body.get("type") == "response.create", "the frame is no response.create")
            state, allowed = metadata.get(TURN_STATE), BODY | {"type", "previous_response_id", "generate"}
        if not is_lite:
            allowed = allowed | {"tools", "instructions"}
        unknown = sorted(set(body) - allowed)
        demand(not unknown, f"Unsupported parameter: {', '.join(unknown)}", unknown and unknown[0])
        for name, value in (("stream", True), ("store", False), ("tool_choice", "auto"), ("include", ["reasoning.encrypted_content"])):
            demand(body.get(name) == value, f"{name} is {body.get(name)}, not {value}", name)
        demand(body.get("parallel_tool_calls") is (not is_lite) or takes_lite > is_lite, "parallel_tool_calls is wrong for the model", "parallel_tool_calls")
        demand(body.get("prompt_cache_key") == session, "prompt_cache_key is not the session's id", "prompt_cache_key")
        self.check_options(body, efforts, is_lite)

        conversation = self.conversations.setdefault(session, Conversation())
        demand(window >= conversation.window, f"the window's number goes back from {conversation.window} to {window}")
        items = body.get("input")
        previous = body.get("previous_response_id")
        # The real client goes on after end_turn: false with nothing new to say.
        demand(isinstance(items, list) and (items or previous), "there is no input", "input")
        if previous is None:
            self.check_beginning(items, is_lite)
            before = []
        else:
            if self.forgets or connection["last"] is None or connection["last"][0] != previous:
                self.forgets = max(self.forgets - 1, 0)
                raise Refused(400, {"error": {"type": "invalid_request_error", "code": "previous_response_not_found",
                                              "message": f"Previous response with id '{previous}' not found.",
                                              "param": "previous_response_id"}})
            before = connection["last"][1]
            self.check_is_new(items, written, before)
        context = before + list(zip(written, items))
        self.check_items(items, account, comp_hash, is_lite)
        self.check_calls([item for _, item in context])
        if record["kind"] != "prewarm":
            self.check_prefix(conversation, context, slug)
        self.check_turn_state(conversation, state, items[-1] if items else {}, record["kind"])
        conversation.window = window
        return self.events(record["kind"], body, context, plan, account, conversation, connection)

    def check_options(self, body, efforts, is_lite):
        reasoning, text = body.get("reasoning") or {}, body.get("text") or {}
        demand(set(reasoning) == {"effort", "context"} or not is_lite, f"reasoning has {sorted(reasoning)}", "reasoning")
        demand(reasoning.get("effort") != "ultra", "ultra is on the wire", "reasoning.effort")
        demand(reasoning.get("effort") in efforts, f"Unsupported value: {reasoning.get('effort')}; the model knows {efforts}", "reasoning.effort")
        demand((reasoning.get("context") == "all_turns") == is_lite, "reasoning.context is wrong for the model", "reasoning.context")
        demand(set(text) <= {"verbosity", "format"}, f"text has {sorted(text)}", "text")
        demand(text.get("verbosity", "low") in ("low", "medium", "high"), "text.verbosity is unknown", "text.verbosity")
        if "format" in text:
            demand(set(text["format"]) == {"type", "name", "strict", "schema"} and text["format"]["type"] == "json_schema"
                   and text["format"]["strict"] is True, "text.format is no strict json_schema", "text.format")

    def check_beginning(self, items, is_lite):
        if not is_lite:
            return
        demand(items[0].get("type") == "additional_tools" and items[0].get("role") == "developer",
               f"the first item is {items[0].get('type')}, not additional_tools of the developer", "input[0]")
        demand(not any(item.get("type") == "additional_tools" for item in items[1:]), "additional_tools comes twice", "input")
        second = items[1] if len(items) > 1 else {}
        demand(second.get("type") == "message" and second.get("role") == "developer"
               and any(part.get("text") for part in second.get("content", [])), "the second item holds no instructions", "input[1]")
        tools = items[0].get("tools")
        demand(isinstance(tools, list), "additional_tools has no tools", "input[0].tools")
        for number, space in enumerate(tools):
            where = f"input[0].tools[{number}]"
            if space.get("type") in ("web_search", "image_generation", "tool_search"):
                continue
            demand(space.get("type") == "namespace", f"a tool of type {space.get('type')} stands outside of a namespace", where)
            demand(set(space) == {"type", "name", "description", "tools"} and space["tools"], f"the namespace has {sorted(space)}", where)
            demand(space["name"] != "functions" or space["description"] == "", "the namespace functions has a description", where)
            for tool in space["tools"]:
                demand(tool.get("type") in ("function", "custom") and tool.get("name"), f"{tool.get('type')} in a namespace", where)
                if tool["type"] == "function":
                    demand(set(tool) == {"type", "name", "description", "strict", "parameters"}, f"the function has {sorted(tool)}", where)
                    continue
                demand({"type", "name", "description"} <= set(tool) <= {"type", "name", "description", "format"}, f"the custom tool has {sorted(tool)}", where)
                form = tool.get("format", {"type": "text"})
                demand(form == {"type": "text"} or set(form) == {"type", "syntax", "definition"} and form["type"] == "grammar"
                       and form["syntax"] in ("lark", "regex") and form["definition"], f"the format of {tool['name']} is {form}", where)

    def check_is_new(self, items, written, before):
        demand(not any(item.get("type") == "additional_tools" for item in items), "additional_tools is sent again on a chain", "input")
        known = {item["id"] for _, item in before if item.get("id")}
        instructions = before[1][0] if len(before) > 1 else None
        for text, item in zip(written, items):
            demand(item.get("id") not in known and text != instructions, "an item is sent again on a chain", "input")

    def check_items(self, items, account, comp_hash, is_lite):
        for number, item in enumerate(items):
            where, kind = f"input[{number}]", item.get("type")
            demand(kind in ITEMS, f"Invalid value: '{kind}'", where)
            issued = self.issued.get(item.get("id"), {})
            unknown = sorted(set(item) - ITEMS[kind] - set(issued) - {"internal_chat_message_metadata_passthrough"})
            demand(not unknown, f"Unknown parameter: '{where}.{', '.join(unknown)}'", where)
            for name, value in item.items():
                demand(name not in issued or agrees(value, issued[name]), f"{where}.{name} is not as it was given out", where)
            if kind == "message":
                demand(item.get("role") in ("user", "developer", "assistant"), f"messages of the {item.get('role')} are not allowed", where)
                demand(item.get("phase") == issued.get("phase"), f"{where} has the phase {item.get('phase')}, not {issued.get('phase')}", where)
                self.check_content(item.get("content"), where, is_lite)
            elif kind in ("reasoning", "compaction"):
                self.check_sealed(item.get("encrypted_content"), account, comp_hash, where)
            elif kind in ("function_call", "custom_tool_call"):
                demand(not is_lite or item.get("namespace") == issued.get("namespace", "functions"), f"{where} has lost its namespace", where)
                text = "arguments" if kind == "function_call" else "input"
                demand(isinstance(item.get(text), str), f"{where}.{text} is no string", where)
            elif kind.endswith("_output"):
                output = item.get("output")
                demand(isinstance(output, str) or isinstance(output, list), f"{where}.output is missing", where)
                if isinstance(output, list):
                    self.check_content(output, where, is_lite)
            demand(kind != "compaction_trigger" or number == len(items) - 1, "compaction_trigger is not the last item", where)

    def check_content(self, parts, where, is_lite):
        demand(isinstance(parts, list) and parts, f"{where} has no content", where)
        for part in parts:
            kind = part.get("type")
            demand(kind in CONTENT, f"Invalid value: '{kind}'", where)
            demand(not is_lite or kind != "input_image" or "detail" not in part, f"an image in {where} has a detail", where)
            # The service's own items come back with what they had.
            unknown = sorted(set(part) - CONTENT[kind] - {"x_new", "safety_buffering"} - (set() if is_lite else {"detail"}))
            demand(not unknown, f"Unknown parameter: '{where}.content.{', '.join(unknown)}'", where)
            if kind in ("input_image", "input_file"):
                data = part.get("image_url", part.get("file_data", ""))
                found = re.fullmatch(r"data:([\w.+-]+/[\w.+-]+);base64,(.+)", data, re.DOTALL)
                demand(found, f"an image or a file in {where} is no data: address", where)
                demand(kind != "input_image" or found[1].startswith("image/"), f"the image in {where} is {found[1]}", where)
                base64.b64decode(found[2], validate=True)

    def seal(self, account, comp_hash):
        return "gAAAA" + base64.urlsafe_b64encode(json.dumps([account, comp_hash, secrets.token_hex(24)]).encode()).decode()

    def check_sealed(self, sealed, account, comp_hash, where):
        try:
            of_account, of_hash, _ = json.loads(base64.urlsafe_b64decode(sealed.removeprefix("gAAAA")))
        except (ValueError, AttributeError):
            of_account, of_hash = None, None
        if (of_account, of_hash) != (account, comp_hash):
            raise fault(f"{where}: the encrypted content is of comp_hash {of_hash}, the model has {comp_hash}"
                        if of_account == account else f"{where}: the encrypted content can't be verified",
                        where + ".encrypted_content", "invalid_encrypted_content")

    def check_calls(self, items):
        calls = [item["call_id"] for item in items if item.get("type") in ("function_call", "custom_tool_call")]
        outputs = [item.get("call_id") for item in items if item.get("type", "").endswith("_call_output")]
        demand(sorted(calls) == sorted(outputs), f"calls {calls} have outputs {outputs}", "input")

    def check_prefix(self, conversation, context, slug):
        """What was said before stands in front, byte for byte; what only the service has written, member for member."""
        sent = [item for _, item in context]
        # History that was summed up is written anew.
        if any(item["type"] == "compaction" for item in sent):
            return
        place, known = 0, conversation.context
        if known and {known[0][1]["type"], sent[0]["type"]} > {"additional_tools"}:
            # The form has changed; only the lite form has this item.
            known, context = ([pair for pair in pairs if pair[1]["type"] != "additional_tools"] for pairs in (known, context))
            sent = [item for _, item in context]
        for number, (text, item) in enumerate(known):
            if number == 0 and self.names(item) != self.names(sent[0]):
                place = 1
                continue
            if item["type"] == "reasoning" and conversation.model != slug and sent[place:place + 1] != [item]:
                continue  # It may be left out for another model.
            now, is_left = (context[place], True) if place < len(context) else ((None, {}), False)
            if text is None:
                is_same = is_left and now[1].get("type") == item["type"] and now[1].get("call_id") == item.get("call_id") \
                    and all(now[1].get(name) in (None, value) for name, value in item.items() if name in ("id", "encrypted_content", "arguments"))
            else:
                is_same = now[0] == text or is_left and now[0] is None
            demand(is_same, f"the prefix is not stable: item {number} was {text or json.dumps(item)}, now {now[0]}", f"input[{place}]")
            place += 1

    @staticmethod
    def names(item):
        return [(space.get("name"), [tool.get("name") for tool in space.get("tools", [])]) for space in item.get("tools", [])]

    def check_turn_state(self, conversation, state, last, kind):
        goes_on = last.get("type", "").endswith("_call_output") or conversation.is_in_turn and last.get("role") != "user"
        if goes_on and kind == "turn":
            demand(state == conversation.turn_state, f"the turn state is {state}, not {conversation.turn_state}")
        demand(state in (None, conversation.turn_state) and state not in conversation.finished, "the turn state is not of this turn")

    # Responses: what is answered.

    def events(self, kind, body, context, plan, account, conversation, connection):
        """(header fields, events). What the service remembers changes with the last event, when the answer is whole."""
        slug, comp_hash = body["model"], CATALOGUE[body["model"]][3]
        response, state = {"id": self.id("resp_"), "object": "response", "status": "in_progress", "model": slug}, None
        if kind != "prewarm":
            state = conversation.turn_state if conversation.is_in_turn else self.id("turn-state-")
        fields = {"x-request-id": self.id("req_"), "openai-model": slug, "x-models-etag": self.etag(plan), "x-reasoning-included": "true",
                  "x-codex-primary-used-percent": "12.5", "x-codex-primary-window-minutes": "300",
                  "x-codex-primary-reset-at": str(int(time.time()) + 1000), "x-codex-promo-message": "Something new!"}
        if state:
            fields[TURN_STATE] = state
        if kind == "prewarm":
            output, goes_on = [], None
        elif kind == "compaction":
            output, goes_on = [{"type": "compaction", "id": self.id("cmp_"), "encrypted_content": self.seal(account, comp_hash)}], None
        else:
            output, goes_on = self.think(body, [item for _, item in context], account, comp_hash)
        output = [noisy(item, self.noise) for item in output]

        def stream():
            number = itertools.count()
            say = lambda kind, **rest: {**noisy({"type": kind, "sequence_number": next(number)}, self.noise), **rest}
            about = {name: value for name, value in fields.items() if name in (TURN_STATE, "x-models-etag", "openai-model")}
            yield say(self.metadata_event, headers=about, metadata={"new": [True]})
            yield say("codex.rate_limits", plan_type=plan, rate_limits={"allowed": True, "limit_reached": False, "primary":
                      {"used_percent": 13, "window_minutes": 300, "reset_at": int(time.time()) + 900}, "secondary": None}, credits=None)
            yield say("response.created", response=response)
            yield say("response.in_progress", response=response)
            yield say("response.new_kind.delta", delta="not for you", item_id="new_1")
            for index, item in enumerate(output):
                # It counts as given out, whatever becomes of the answer.
                self.issued[item["id"]] = item
                yield from self.item_events(say, index, item)
                if item.get("phase") == "commentary":
                    yield say("codex.something_new", progress=0.5)
            if goes_on == "cancelled":
                yield say("response.cancelled", response={"id": "resp_other", "status": "cancelled"})
            usage = {"input_tokens": 100, "input_tokens_details": {"cached_tokens": 50}, "output_tokens": 10,
                     "output_tokens_details": {"reasoning_tokens": 2}, "total_tokens": self.total_tokens}
            last = noisy({**response, "status": "completed", "output": output, "usage": usage}, self.noise)
            if goes_on is True:
                last["end_turn"] = False
            with self.lock:
                self.finish(kind, response["id"], output, context, conversation, connection, state, goes_on is True, slug)
            yield say("response.completed", response=last)

        return fields, stream()

    def finish(self, kind, response, output, context, conversation, connection, state, goes_on, slug):
        self.issued.update((item["id"], item) for item in output)
        whole = context + [(None, item) for item in output]
        if connection is not None:
            connection["last"] = (response, whole)
        if kind == "turn":
            conversation.context, conversation.model = whole, slug
            conversation.turn_state, conversation.is_in_turn = state, goes_on
            if not goes_on:
                conversation.finished.add(state)
        elif kind == "compaction":
            conversation.context, conversation.is_in_turn = [], False

    def item_events(self, say, index, item):
        kind = item["type"]
        if kind == "message" and item["content"][0]["type"] == "refusal":
            yield say("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
            yield say("response.refusal.delta", item_id=item["id"], output_index=index, content_index=0, delta=item["content"][0]["refusal"])
        elif kind == "message":
            text, place = item["content"][0]["text"], {"item_id": item["id"], "output_index": index, "content_index": 0}
            yield say("response.output_item.added", output_index=index, item={**item, "status": "in_progress", "content": []})
            yield say("response.content_part.added", **place, part={"type": "output_text", "text": "", "annotations": []})
            for start in range(0, len(text), 7):
                if HOLD in text[:start]:
                    self.released.wait(60)
                yield say("response.output_text.delta", **place, delta=text[start : start + 7], obfuscation="x" * 7)
            yield say("response.output_text.done", **place, text=text)
            yield say("response.content_part.done", **place, part={"type": "output_text", "text": text, "annotations": []})
        elif kind in ("function_call", "custom_tool_call"):
            # The service names a custom call by its own id, where a function's is named by its item's.
            member, name = ("arguments", "item_id") if kind == "function_call" else ("input", "call_id")
            place = {name: item["id" if name == "item_id" else "call_id"], "output_index": index}
            yield say("response.output_item.added", output_index=index, item={**item, "status": "in_progress", member: ""})
            for start in range(0, len(item[member]), 5):
                yield say(f"response.{kind}_{member}.delta", **place, delta=item[member][start : start + 5])
            yield say(f"response.{kind}_{member}.done", **place, **{member: item[member]})
        elif kind == "reasoning":
            yield say("response.output_item.added", output_index=index, item={**item, "encrypted_content": "gAAAA"})
            for number, part in enumerate(item["summary"]):
                place = {"item_id": item["id"], "output_index": index, "summary_index": number}
                yield say("response.reasoning_summary_part.added", **place, part={"type": "summary_text", "text": ""})
                yield say("response.reasoning_summary_text.delta", **place, delta=part["text"])
                yield say("response.reasoning_summary_text.done", **place, text=part["text"])
        yield say("response.output_item.done", output_index=index, item=item)

    def think(self, body, items, account, comp_hash):
        """(items, whether the turn goes on). Reasoning comes first, then commentary, then the calls or the answer."""
        users = [number for number, item in enumerate(items) if item.get("role") == "user"]
        content = items[users[-1]]["content"] if users else []
        texts = [part["text"] for part in content if part["type"] == "input_text"]
        asked, since = "\n".join(texts), items[users[-1] + 1 :] if users else []
        outputs = [item["output"] if isinstance(item["output"], str) else json.dumps(item["output"])
                   for item in since if item.get("type", "").endswith("_call_output")]
        said = sum(item.get("phase") == "commentary" for item in since)
        summary = [{"type": "summary_text", "text": "**Thinking** about it"}]
        reasoning = {"type": "reasoning", "id": self.id("rs_"), "summary": summary, "encrypted_content": self.seal(account, comp_hash)}

        def message(text, phase):
            item = {"type": "message", "id": self.id("msg_"), "status": "completed", "role": "assistant",
                    "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]}
            return item if phase is None else {**item, "phase": phase}

        commentary = message(COMMENTARY, "commentary")
        if "refuse:" in asked:
            said = {"type": "refusal", "refusal": asked.split("refuse:", 1)[1].strip()}
            return [reasoning, {**message("", "final_answer"), "content": [said]}], None
        texts = re.findall(r"^write (\w+) (.*)$", asked, re.MULTILINE)
        if texts and not outputs:
            return [reasoning] + [
                {"type": "custom_tool_call", "id": self.id("ctc_"), "status": "completed", "call_id": self.id("call_"), "name": name,
                 "namespace": "functions", "input": text} for name, text in texts], True
        calls = re.findall(r"^call (\w+) (\{.*\})$", asked, re.MULTILINE)
        declared = {name: space for space, names in self.names(items[0]) for name in names}
        missing = [name for name, _ in calls if name not in declared]
        if missing:
            return [reasoning, message(f"There is no {missing} among {list(declared)}.", "final_answer")], None
        if calls and not outputs:
            return [reasoning, commentary] + [
                {"type": "function_call", "id": self.id("fc_"), "status": "completed", "call_id": self.id("call_"), "name": name,
                 "namespace": declared[name], "arguments": arguments} for name, arguments in calls], True
        steps = re.search(r"^go on (\d+)$", asked, re.MULTILINE)
        if steps and said < int(steps[1]):
            return [reasoning, commentary], True
        for word, phase in (("reply", "final_answer"), ("plain", None), ("cancelled", "final_answer")):
            if word + ":" in asked:
                answer = message(asked.split(word + ":", 1)[1].strip(), phase)
                before = [reasoning] if phase is None else [reasoning, commentary]
                return before + [answer], "cancelled" if word == "cancelled" else None
        if outputs:
            text = "\n".join(outputs)
        elif "format" in (body.get("text") or {}):
            text = json.dumps(example(body["text"]["format"]["schema"]))
        else:
            images = sum(part["type"] == "input_image" for item in items if isinstance(item.get("content"), list) for part in item["content"])
            text = (f"You asked: {asked}\nModel: {body['model']}\nEffort: {body['reasoning']['effort']}\nTurn: {len(users)}\n"
                    f"Images: {images}\nTools: {', '.join(declared) or 'none'}")
        return [reasoning, commentary, message(text, "final_answer")], None


def example(schema):
    """A value that fits a simple schema."""
    if "enum" in schema or "const" in schema:
        return schema.get("const", schema.get("enum", [None])[0])
    kind = schema.get("type")
    kind = kind[0] if isinstance(kind, list) else kind
    if kind == "object":
        return {name: example(part) for name, part in schema.get("properties", {}).items()}
    return {"array": lambda: [example(schema["items"])], "string": lambda: "Bonn", "integer": lambda: 7, "number": lambda: 7.5,
            "boolean": lambda: True}.get(kind, lambda: None)()


class Handler(http.server.BaseHTTPRequestHandler):
    """One connection. `service` is set by the service."""

    protocol_version, disable_nagle_algorithm, service = "HTTP/1.1", True, None

    def log_message(self, *_):
        pass

    def do_GET(self):
        self.answer()

    do_POST = do_HEAD = do_GET

    def answer(self):
        path, _, query = self.path.partition("?")
        line, service = f"{self.command} {path}", self.service
        headers = {name.lower(): value for name, value in self.headers.items()}
        data = self.rfile.read(int(headers.get("content-length", 0)))
        is_upgrade = headers.get("upgrade", "").lower() == "websocket"
        line = "UPGRADE " + path if is_upgrade else line
        with service.lock:
            service.log.append(line)
        try:
            if line in service.blocks:
                raise Refused(403, PAGE, content_type="text/html; charset=UTF-8", cf_ray="9e1-FRA", server="cloudflare")
            if line in service.breaks:
                raise Refused(service.breaks[line], {"error": {"message": "A problem."}})
            if line == "POST /backend-api/codex/responses":
                return self.stream(data, headers)
            if line == "UPGRADE /backend-api/codex/responses":
                return self.upgrade(headers)
            with service.lock:
                if line.startswith("GET /backend-api/codex/models"):
                    result = service.model_list(headers, urllib.parse.parse_qs(query))
                elif line == "GET /backend-api/wham/usage":
                    result = service.usage(headers)
                elif line == "GET /backend-api/wham/rate-limit-reset-credits":
                    service.account(headers)
                    result = {"available_count": 0, "credits": []}
                elif line in EMPTY_IS_REFUSED and data == b"{}":
                    service.account(headers)
                    raise Refused(400, {"error": {"message": "Missing required parameter", "type": "invalid_request_error"}})
                elif line == "GET /backend-api/wham/accounts/check":
                    result = service.workspaces(headers)
                elif line == "GET /" or self.command == "HEAD" or not service.is_ours and line.startswith("GET /backend-api/"):
                    result = {}
                else:
                    is_form = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
                    body = dict(urllib.parse.parse_qsl(data.decode())) if is_form else json.loads(data or b"{}")
                    act = {"POST /api/accounts/deviceauth/usercode": service.user_code, "POST /oauth/token": service.exchange,
                           "POST /api/accounts/deviceauth/token": service.poll, "POST /oauth/revoke": service.revoke}.get(line)
                    if not act:
                        raise Refused(404, {"detail": "Not Found"}, f"there is no {line}")
                    result = act(body)
            account = service.accounts.get(headers.get("authorization", "").removeprefix("Bearer "))
            self.reply(200, result, **({"etag": service.etag(account[1])} if "/models" in path and account else {}))
        except Refused as refused:
            self.refuse(refused, line)

    def refuse(self, refused, line):
        if refused.reason:
            with self.service.lock:
                self.service.refusals.append(f"{line}: {refused.reason}")
        self.reply(refused.status, refused.body, refused.content_type, **refused.headers)

    def reply(self, status, body, content_type="application/json", **headers):
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("content-type", content_type)
        if status != 304:
            self.send_header("content-length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def stream(self, data, headers):
        if headers.get("content-encoding") == "zstd":
            data = unzip(data)
        demand(headers.get("content-type") == "application/json", "content-type is not application/json")
        fields, events = self.service.receive(data.decode(), headers)
        self.send_response(200)
        for name, value in {"content-type": "text/event-stream", "transfer-encoding": "chunked", **fields}.items():
            self.send_header(name, value)
        self.end_headers()
        chunk = lambda data: self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        chunk(b": hello\n\n")
        for event in events:
            chunk(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        chunk(b"")

    def upgrade(self, headers):
        service = self.service
        service.account(headers)
        service.version(headers)
        service.identified(headers)
        demand(headers.get("openai-beta") == "responses_websockets=2026-02-06", "openai-beta does not name the frames")
        if service.upgrade_status != 101:
            raise Refused(service.upgrade_status, {"detail": "No upgrade here."})
        compresses = "permessage-deflate" in headers.get("sec-websocket-extensions", "")
        key = hashlib.sha1((headers["sec-websocket-key"] + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()
        self.send_response(101)
        answer = {"Upgrade": "websocket", "Connection": "Upgrade", "Sec-WebSocket-Accept": base64.b64encode(key).decode(),
                  "x-request-id": service.id("req_"), "x-new-header": "new"}
        if compresses:
            answer["Sec-WebSocket-Extensions"] = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
        for name, value in answer.items():
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        with service.lock:
            service.connections += 1
            connection = {"number": service.connections, "last": None}
        with contextlib.suppress(ConnectionError, EOFError):
            self.converse(Frames(self.rfile, self.wfile, compresses), headers, connection)

    def converse(self, frames, headers, connection):
        service = self.service
        for text in frames:
            frames.send(9, b"are you there?")
            try:
                _, events = service.receive(text, headers, connection)
                for event in events:
                    frames.send(1, json.dumps(event).encode())
            except Refused as refused:
                body = refused.body
                if "detail" in body and service.frame_style == "error":
                    body = {"error": {"type": "invalid_request_error", "message": body["detail"]}}
                if refused.reason:
                    with service.lock:
                        service.refusals.append(f"WebSocket: {refused.reason}")
                connection["last"] = None
                frames.send(1, json.dumps({"type": "error", "status": refused.status, **body, "headers": {"x-new": "1"}}).encode())


class Frames:
    """The server's end of RFC 6455 and, where it was offered, RFC 7692 without a context."""

    def __init__(self, reader, writer, compresses):
        self.reader, self.writer, self.compresses = reader, writer, compresses

    def __iter__(self):
        """The text messages, up to the closing frame."""
        message, is_compressed = b"", False
        while True:
            first, second = self.read(2)
            opcode, size = first & 15, second & 127
            assert second & 128, "a frame of the client is not masked"
            size = struct.unpack(">H", self.read(2))[0] if size == 126 else struct.unpack(">Q", self.read(8))[0] if size == 127 else size
            mask = self.read(4)
            data = self.read(size)
            data = (int.from_bytes(data, "big") ^ int.from_bytes((mask * (size // 4 + 1))[:size], "big")).to_bytes(size, "big")
            if opcode == 8:
                return self.send(8, data[:2])
            if opcode in (9, 10):
                if opcode == 9:
                    self.send(10, data)
                continue
            if opcode:
                message, is_compressed = b"", bool(first & 64)
            message += data
            if first & 128:
                if is_compressed:
                    message = zlib.decompressobj(-15).decompress(message + b"\0\0\xff\xff")
                yield message.decode()

    def read(self, count):
        data = self.reader.read(count)
        if len(data) < count:
            raise EOFError
        return data

    def send(self, opcode, data):
        """A long text goes out in two frames."""
        is_text = opcode == 1
        if is_text and self.compresses:
            packer = zlib.compressobj(wbits=-15)
            data = (packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH))[:-4]
        parts = [data[:300], data[300:]] if is_text and len(data) > 300 else [data]
        for number, part in enumerate(parts):
            first = (0 if number else opcode) | (128 if number == len(parts) - 1 else 0)
            first |= 64 if is_text and self.compresses and number == 0 else 0
            size = bytes([len(part)]) if len(part) < 126 else struct.pack(">BH", 126, len(part)) if len(part) < 65536 else struct.pack(">BQ", 127, len(part))
            self.writer.write(bytes([first]) + size + part)
