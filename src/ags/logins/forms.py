"""The agents' log-in files, and the makers whose tokens are in them."""

from __future__ import annotations

from ags.logins.base import Account, Endpoint, Form, Kind, Maker

ANTHROPIC = Maker(
    "anthropic",
    hosts=("api.anthropic.com",),
    endpoints=(
        Endpoint("platform.claude.com", "/v1/oauth/token"),
        Endpoint("console.anthropic.com", "/v1/oauth/token"),
        Endpoint("api.anthropic.com", "/v1/oauth/token"),
    ),
    passes=("account", "organization"),
)
OPENAI = Maker(
    "openai",
    hosts=("chatgpt.com", "api.openai.com"),
    endpoints=(Endpoint("auth.openai.com", "/oauth/token"),),
    scopes=("openid", "profile", "email"),
)
GOOGLE = Maker(
    "google",
    # The last two are asked whose token it is.
    hosts=("cloudcode-pa.googleapis.com", "www.googleapis.com", "oauth2.googleapis.com"),
    endpoints=(Endpoint("oauth2.googleapis.com", "/token"),),
)
ANTHROPIC_KEY = Maker("anthropic", ("api.anthropic.com",), header="x-api-key", template="{}")
OPENAI_KEY = Maker("openai", ("api.openai.com",))
GOOGLE_KEY = Maker(
    "google", ("generativelanguage.googleapis.com",), header="x-goog-api-key", template="{}"
)

_BOTH: tuple[tuple[Kind, str], ...] = (("access", "access"), ("refresh", "refresh"))
_OAUTH = ("type", "oauth")


def _oauth(provider: str, maker: Maker, *plain: str) -> Account:
    """As opencode and pi write it."""
    fields = ("type", *plain)
    return Account(maker, (provider,), _BOTH, _OAUTH, expiry="expires", plain=fields)


def _key(provider: str, maker: Maker, word: str) -> Account:
    return Account(maker, (provider,), (("access", "key"),), ("type", word), plain=("type",))


CLAUDE = Form(
    "claude",
    ".claude/.credentials.json",
    (
        Account(
            ANTHROPIC,
            ("claudeAiOauth",),
            (("access", "accessToken"), ("refresh", "refreshToken")),
            expiry="expiresAt",
            scopes="scopes",
            plan="subscriptionType",
            plain=("scopes", "subscriptionType", "rateLimitTier"),
        ),
    ),
    moved=("CLAUDE_CONFIG_DIR", ".credentials.json"),
    claims="folder",
)
CODEX = Form(
    "codex",
    ".codex/auth.json",
    (
        Account(
            OPENAI,
            ("tokens",),
            (("access", "access_token"), ("refresh", "refresh_token"), ("id", "id_token")),
            plain=("account_id",),
        ),
        Account(OPENAI_KEY, (), (("access", "OPENAI_API_KEY"),)),
    ),
    moved=("CODEX_HOME", "auth.json"),
    plain=("auth_mode", "last_refresh"),
    stamp="last_refresh",
)
GEMINI = Form(
    "gemini",
    ".gemini/oauth_creds.json",
    (
        Account(
            GOOGLE,
            (),
            (("access", "access_token"), ("refresh", "refresh_token"), ("id", "id_token")),
            expiry="expiry_date",
            scopes="scope",
            plain=("scope", "token_type"),
        ),
    ),
    moved=("GEMINI_CLI_HOME", ".gemini/oauth_creds.json"),
)
OPENCODE = Form(
    "opencode",
    ".local/share/opencode/auth.json",
    (
        _oauth("anthropic", ANTHROPIC),
        _oauth("openai", OPENAI, "accountId"),
        _key("anthropic", ANTHROPIC_KEY, "api"),
        _key("openai", OPENAI_KEY, "api"),
        _key("google", GOOGLE_KEY, "api"),
    ),
    moved=("XDG_DATA_HOME", "opencode/auth.json"),
)
PI = Form(
    "pi",
    ".pi/agent/auth.json",
    (
        _oauth("anthropic", ANTHROPIC),
        _oauth("openai-codex", OPENAI, "accountId"),
        _oauth("google-gemini-cli", GOOGLE, "projectId", "email"),
        _key("anthropic", ANTHROPIC_KEY, "api_key"),
        _key("openai", OPENAI_KEY, "api_key"),
        _key("google", GOOGLE_KEY, "api_key"),
    ),
    moved=("PI_CODING_AGENT_DIR", "auth.json"),
    claims="file",
)

FORMS: dict[str, Form] = {form.agent: form for form in (CLAUDE, CODEX, GEMINI, OPENCODE, PI)}
