"""Secrets become placeholders, ordinary text stays the same object, and no text is slow.

Every key here is invented and assembled at run time, so that a scanner of this repository finds none.
"""

import hashlib
import hmac
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stator.model.log import redact, secret_names, secret_shapes, secret_spans
from stator.model.log.redact import (
    KINDS,
    Redactor,
    has_placeholder,
    placeholder_pattern,
)
from stator.model.values.late_pattern import LatePattern

KEY = b"a session's key"
MIX = "aB3dE5gH7jK9mN1pQ2sT4vW6xY8zC0fLrUtOiR3nM5bV7c"
HEX = "0f1e2d3c4b5a69788796a5b4c3d2e1f00f1e2d3c4b5a69788796a5b4c3d2e1f0"
DIGITS = "482915730264"
B64 = "MIIEvQ" + "IBADANBgkqhkiG9w0BAQEFAASC+/" + MIX


def mixed(size: int) -> str:
    return (MIX * 8)[:size]


def pem(label: str, newline: str = "\n", *, end: bool = True) -> str:
    lines = ["-----BEGIN " + label + "-----", *[mixed(64)] * 5, mixed(20) + "=="]
    if end:
        lines.append("-----END " + label + "-----")
    return newline.join(lines)


VENDOR_KEYS: list[tuple[str, str]] = [
    ("anthropic", "sk-" + "ant-" + "api03-" + mixed(90) + "-" + mixed(5) + "AA"),
    ("anthropic", "sk-" + "ant-" + "admin01-" + mixed(60)),
    ("anthropic", "sk-" + "ant-" + "oat01-" + "A" * 40),
    ("openai", "sk-" + "proj-" + mixed(40) + "_" + mixed(20) + "-" + mixed(30)),
    ("openai", "sk-" + "svcacct-" + mixed(60)),
    ("openai", "sk-" + "admin-" + mixed(60)),
    ("openai", "sk-" + mixed(20) + "T3Blbk" + "FJ" + mixed(20)),
    ("openrouter", "sk-" + "or-" + "v1-" + HEX),
    ("github", "gh" + "p_" + mixed(36)),
    ("github", "gh" + "o_" + mixed(36)),
    ("github", "gh" + "u_" + mixed(36)),
    ("github", "gh" + "s_" + mixed(36)),
    ("github", "gh" + "r_" + mixed(76)),
    ("github", "github" + "_pat_" + mixed(22) + "_" + mixed(59)),
    ("gitlab", "gl" + "pat-" + mixed(20)),
    ("gitlab", "gl" + "pat-" + mixed(27) + ".01." + mixed(9)),
    ("aws", "AK" + "IA" + "QYLPMN5HHHFPZAM2"),
    ("aws", "AS" + "IA" + "ABCDEFGHIJKLMNOP"),
    ("slack", "xox" + "b-" + DIGITS + "-" + DIGITS + "-" + mixed(24)),
    ("slack", "xox" + "p-" + DIGITS + "-" + DIGITS + "-" + HEX[:32]),
    ("slack", "xox" + "a-2-" + DIGITS + "-" + mixed(20)),
    ("slack", "xapp" + "-1-A" + DIGITS[:10] + "-" + DIGITS + "-" + HEX),
    ("google", "AI" + "za" + mixed(35)),
    ("google", "ya" + "29." + mixed(60)),
    ("stripe", "sk_" + "live_" + mixed(24)),
    ("stripe", "rk_" + "live_" + mixed(24)),
    ("stripe", "sk_" + "test_" + mixed(24)),
    ("stripe", "wh" + "sec_" + mixed(32)),
    ("npm", "npm" + "_" + mixed(36)),
    ("pypi", "pypi" + "-AgEI" + "cHlwaS5vcmc" + mixed(80)),
    ("huggingface", "hf" + "_" + mixed(34)),
    ("sendgrid", "S" + "G." + mixed(22) + "." + mixed(43)),
    ("twilio", "S" + "K" + HEX[:32]),
    ("digitalocean", "dop" + "_v1_" + HEX),
    ("databricks", "da" + "pi" + HEX[:32]),
    ("linear", "lin" + "_api_" + mixed(40)),
    ("groq", "gs" + "k_" + mixed(52)),
    ("xai", "xa" + "i-" + (MIX * 2)[:80]),
    ("replicate", "r" + "8_" + mixed(37)),
    ("perplexity", "pp" + "lx-" + mixed(48)),
    ("telegram", DIGITS[:9] + ":A" + "A" + mixed(33)),
    ("discord", "M" + mixed(23) + "." + "Gh1jKl" + "." + mixed(38)),
    ("atlassian", "ATAT" + "T3xFf" + "GF0" + mixed(60) + "=" + HEX[:8].upper()),
    ("shopify", "shp" + "at_" + HEX[:32]),
    ("vault", "hv" + "s." + mixed(90)),
    ("age", "AGE-" + "SECRET-" + "KEY-1" + "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L" * 2),
    ("jwt", "ey" + "JhbGciOiJIUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0NTY3ODkwIn0." + mixed(43)),
    ("jwt", "ey" + "JhbGciOiJSUzI1NiJ9" + ".ey" + "JzdWIiOiIxMjM0NTY3ODkw" + mixed(12)),
    ("jwt", "ey" + "JhbGciOiJSU0EifQ" + ".." + ".".join([mixed(16), mixed(40), mixed(22)])),
    ("private-key", pem("RSA PRIVATE " + "KEY")),
    ("private-key", pem("PRIVATE " + "KEY")),
    ("private-key", pem("OPENSSH PRIVATE " + "KEY")),
    ("private-key", pem("PRIVATE " + "KEY", "\\n")),
    ("private-key", pem("EC PRIVATE " + "KEY", end=False)),
    ("private-key", pem("PRIVATE " + "KEY", "\\n", end=False)),
    ("private-key", pem("PGP PRIVATE " + "KEY BLOCK")),
]
"""Secrets recognised by their shape, in any context."""

PASSWORD = "hunter" + "2!x"
VALUE = "q7Rz" + "-V0x9" + "Lw2k"

IN_CONTEXT: list[tuple[str, str, str]] = [
    ("slack", "https://hooks.slack.com/services/@", "T01234567/B01234567/" + mixed(24)),
    ("discord", "https://discord.com/api/webhooks/123456789012345678/@", mixed(68)),
    ("telegram", "https://api.telegram.org/bot@/getMe", DIGITS[:10] + ":A" + "A" + mixed(33)),
    ("azure", "AccountName=x;AccountKey=@;EndpointSuffix=y", (MIX + "+/") * 2 + "=="),
    ("aws", "aws_secret_access_key = @", mixed(38) + "/+"),
    ("aws", 'AWS_SECRET_ACCESS_KEY="@"', mixed(38) + "/+"),
    ("bearer", "Authorization: Bearer @", "abc." + mixed(12)),
    ("bearer", "curl -H 'Authorization: Bearer @' https://h", mixed(30)),
    ("bearer", '{"Authorization": "Bearer @"}', mixed(30)),
    ("bearer", '{\\"authorization\\": \\"Bearer @\\"}', mixed(30)),
    ("bearer", "sent bearer @ to it", mixed(30)),
    ("bearer", "Authorization: token @", HEX[:40]),
    ("basic-auth", "Authorization: Basic @", "dXNlcjpodW50ZXIy" + "Cg=="),
    ("basic-auth-url", "postgres://app:@@db.internal:5432/x", PASSWORD),
    ("basic-auth-url", "git clone https://user:@@example.org/a.git", mixed(20)),
    ("basic-auth-url", "redis://:@@localhost:6379/0", "s3cr3" + "tPass"),
    ("basic-auth-url", '"amqp://u:@@h"', "p@ss" + "w0rd"),
    ("basic-auth-url", "https://@@example.org/", mixed(30)),
    ("assigned", "API_KEY=@", VALUE),
    ("assigned", "export SOME_API_KEY=@", VALUE),
    ("assigned", "export SECRET='@'", VALUE),
    ("assigned", "DB_PASSWORD=@\nOTHER=1", PASSWORD),
    ("assigned", "MYSQL_PASSWD=@", PASSWORD),
    ("assigned", "A=1 GITHUB_TOKEN=@ make", VALUE),
    ("assigned", "A=1\\nAPIKEY=@\\nB=2", VALUE),
    ("assigned", "SIGNING_PRIVATE_KEY=@", VALUE),
    ("assigned", "GCP_CREDENTIAL=@", VALUE),
    ("assigned", "REGISTRY_AUTH=@", VALUE),
    ("assigned", "CLIENT_SECRET=@;", VALUE),
    ("assigned", 'password: "@"', PASSWORD),
    ("assigned", "password: @\n", PASSWORD),
    ("assigned", "  - password: @\n", "sword" + "fish"),
    ("assigned", "secret = '@'", VALUE),
    ("assigned", "api_key = '@'", VALUE),
    ("assigned", '"api_key": "@"', VALUE),
    ("assigned", '{"user": "a", "clientSecret":"@"}', VALUE),
    ("assigned", '{\\"api_key\\": \\"@\\"}', VALUE),
    ("assigned", '{\\\\\\"api_key\\\\\\": \\\\\\"@\\\\\\"}', VALUE),
    ("assigned", '"password": "@"', "correct horse " + "battery"),
    ("assigned", "'accessToken': '@',", VALUE),
    ("assigned", "connect(user='a', password='@')", PASSWORD),
    ("assigned", "token: @\n", VALUE + mixed(10)),
    ("assigned", "[db]\npassword = @\n", PASSWORD),
    ("assigned", "Server=h;Uid=u;Pwd=@;", PASSWORD),
    ("assigned", "https://h/?access_token=@&x=1", mixed(24)),
    ("assigned", "--password=@", PASSWORD),
    ("assigned", "tool --password @ run", PASSWORD),
    ("assigned", "tool --token @ run", VALUE),
    ("assigned", "tool --api-key '@' run", VALUE),
    ("assigned", 'tool --client-secret="@"', VALUE),
    ("assigned", "x-api-key: @\n", VALUE),
    ("assigned", 'os.environ["API_KEY"] = "@"', VALUE),
    ("assigned", 'password: str = "@"', PASSWORD),
    ("assigned", "SMTP_PASS=@", PASSWORD),
    ("assigned", '{"env": ["DB_PASSWORD=@", "A=1"]}', PASSWORD),
    ("assigned", "docker run -e 'API_KEY=@' image", VALUE),
    ("assigned", '{\\"text\\": \\"password: @\\"}', mixed(20)),
    ("basic-auth-url", "postgres:/app:@@db.internal:5432/x", PASSWORD),
    ("assigned", 'db_pass: "@"', PASSWORD),
    ("assigned", '[{"name":"DB_PASSWORD","value":"@"}]', PASSWORD),
    ("assigned", '{"name": "API_KEY",\n "value": "@"}', VALUE),
    ("assigned", '{\\"name\\": \\"API_KEY\\", \\"value\\": \\"@\\"}', VALUE),
    ("assigned", "- name: API_KEY\n  value: '@'", VALUE),
    ("assigned", "session_cookie = '@'", mixed(24)),
    ("cookie", "Cookie: session=@", mixed(24)),
    ("cookie", "cookie: theme=dark; sid=@; lang=en", mixed(24)),
    ("cookie", "Set-Cookie: sid=@; Path=/; Expires=Wed, 21 Oct 2026 07:28:00 GMT", mixed(24)),
    ("cookie", "curl -H 'Cookie: a=@' https://h", "k3J" + "9x" * 5),
    ("cookie", '{"Cookie": "a=@"}', mixed(30)),
    ("cookie", '{\\"set-cookie\\": \\"a=@\\"}', mixed(30)),
    ("cookie", "curl --cookie sid=@ https://h", mixed(30)),
    ("private-key", "@\n-----END PRIVATE " + "KEY-----", (mixed(64) + "\n") * 3 + mixed(9)),
]
"""Secrets recognised by their context; the secret replaces the first run of @."""

CLEAN = [
    "",
    "token = self.next_token()",
    "password: str",
    "password: str | None = None",
    "TOKEN = 'tok'",
    "def get_secret(self):",
    'os.environ["API_KEY"]',
    "os.environ['TOKEN'] = token",
    "API_KEY=${API_KEY}",
    "API_KEY=$API_KEY",
    "TOKEN=$(cat token.txt)",
    "API_KEY=<your key>",
    "PASSWORD=********",
    "PASSWORD=",
    "password=None",
    "password = password",
    "password=self.password, token=self.token",
    "--token-file path/to/file1234",
    "--token TOKEN",
    "the --password option is required",
    "usage: x [--token TOKEN] [--password PASSWORD]",
    "max_tokens: 4096",
    "max_tokens=4096",
    '"input_tokens": 12345678, "output_tokens": 9',
    '"token_count": "123456789"',
    '"next_page_token": "CAUQAA1234567890"',
    "tokenizer = load('bert-base-uncased-1')",
    "token_type: 'bearer12'",
    '{"type": "password", "name": "password"}',
    '"password": "password"',
    'grant = {"token": "access_token"}',
    "commit 3f786850e387550fdab836ed7e6dc881de23001b",
    "id 018f3b6e-7c1a-7d2f-9b1e-0123456789ab",
    "sha256:" + HEX,
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4",
    "https://example.org/a@b",
    "mail me: someone@example.org or http://example.org",
    "postgres://user:password@localhost/db",
    "postgres://user:${PGPASSWORD}@localhost/db",
    "Authorization: Bearer <token>",
    "Authorization: Bearer ${TOKEN}",
    "bearer authentication-is-described-elsewhere",
    "the secret: it has to be typed in",
    "key = value",
    "primary_key: 'user_id_2'",
    "sort_key='created_at_1'",
    "author: Someone Else",
    "authority = 'certificates1234'",
    "fetch(url, {credentials: 'include'})",
    "PWD=/home/me/project1",
    "a task-force, a risk-free disk-drive",
    "sk-learn and risk-assessment-of-all-kinds-of-things",
    "looks for -----BEGIN PRIVATE " + "KEY----- in the file",
    "-----BEGIN PUBLIC KEY-----\n" + mixed(64) + "\n-----END PUBLIC KEY-----",
    "-----BEGIN CERTIFICATE-----\n" + mixed(64) + "\n-----END CERTIFICATE-----",
    "if token == 'abcdef12':",
    "Cookie: name=value; name2=value2",
    "Set-Cookie: theme=dark; Max-Age=31536000; Expires=Wed, 21 Oct 2026 07:28:00 GMT",
    "Set-Cookie: sid=<id>; Path=/account1/settings2",
    "cookie = http.cookies.SimpleCookie()",
    "cookies={'a': 'b'}, cookie_name='sessionid1'",
    '"jsonwebtoken": "^9.0.2", "csrf-token": "~1.2.0-rc.1"',
    "second_pass = run(2)",
    "password=prefix+'-and-more'",
    "'token=' + make_1(), f'password={value_1}'",
    "--- PASS: TestLogin2 (0.00s)",
    '{"name": "token", "value": ""}',
    mixed(40) + "-r8_" + mixed(40),
    "private_key_path: /etc/ssl/private/key1.pem",
    "token: Token",
    "secret_name: my-secret-1",
    "x" * 5000,
    "-" * 300,
    "def test_a_rather_long_name_of_a_test_that_is_a_sentence(): ...",
    "\ud800 lone surrogate, and ‹quotes›",
]


def text_with(context: str, secret: str) -> str:
    """The context with the secret in place of its @; `@@` is the secret and the @ of a URL."""
    return context.replace("@", secret, 1)


CASES = [(kind, f"see {secret} there", secret) for kind, secret in VENDOR_KEYS] + [
    (kind, text_with(context, secret), secret) for kind, context, secret in IN_CONTEXT
]


def scrub(text: str, name: str | None = None) -> str:
    return Redactor(KEY).scrub(text, name)


def digest(secret: str) -> str:
    return hmac.new(KEY, secret.encode(), hashlib.sha256).hexdigest()[:12]


@pytest.mark.parametrize(("kind", "text", "secret"), CASES)
def test_a_secret_is_replaced_by_the_placeholder_of_its_kind(kind, text, secret):
    if kind == "private-key":
        found = placeholder_pattern.search(scrub(text))
        assert found
        assert found[0].startswith("‹secret:private-key:")
        assert mixed(64) not in scrub(text)
    else:
        placeholder = f"‹secret:{kind}:{digest(secret)}›"
        assert scrub(text) == text.replace(secret, placeholder, 1)


@pytest.mark.parametrize("text", CLEAN)
def test_ordinary_text_is_returned_as_the_same_object(text):
    redactor = Redactor(KEY)
    assert redactor.scrub(text) is text
    assert redactor.hits == 0


def test_the_test_tables_have_at_least_60_secrets_and_40_clean_texts():
    assert len(CASES) >= 60
    assert len(CLEAN) >= 40


def test_every_kind_is_described_once_and_has_a_test_case():
    kinds = [kind for kind, _ in KINDS]
    assert kinds == sorted(set(kinds))
    assert {kind for kind, _, _ in CASES} == set(kinds)
    assert all(re.fullmatch(r"[a-z][a-z-]+", kind) for kind in kinds)


def test_the_sources_contain_no_text_that_is_a_key():
    for source in (Path(__file__), Path(redact.__file__)):
        text = source.read_text(encoding="utf-8")
        found = [span for span in redact._spans(text) if span.kind not in redact._GENERIC]
        assert not found


def test_the_placeholder_of_a_secret_depends_on_the_redaction_key():
    secret = VENDOR_KEYS[0][1]
    first, second = Redactor(b"one"), Redactor(b"two")
    assert first.scrub(f"a {secret}") == first.scrub(f"a {secret}")
    assert first.scrub(secret) != second.scrub(secret)
    assert first.scrub(f"API_KEY={secret}") == "API_KEY=" + first.scrub(secret)


def test_hits_are_counted_over_all_texts():
    redactor = Redactor(KEY)
    redactor.scrub(f"{VENDOR_KEYS[0][1]} {VENDOR_KEYS[9][1]}")
    redactor.scrub("nothing here")
    redactor.scrub(PASSWORD, "password")
    assert redactor.hits == 3


def test_a_placeholder_is_recognised():
    assert has_placeholder(scrub(f"x {VENDOR_KEYS[0][1]} y"))
    assert not has_placeholder("‹secret:x› ‹secret:openai:0123›")


@pytest.mark.parametrize(
    "name",
    "password Passwd DB_PASSWORD user-password userPassword pwd db_pass secret client_secret"
    " clientSecret token x-auth-token refreshToken api_key apikey API-KEY OPENAI_API_KEY access_key"
    " private_key Authorization credential credentials aws_secret_access_key secretKey".split(),
)
def test_the_value_under_a_secret_name_is_replaced_whole(name):
    assert scrub(VALUE, name) == f"‹secret:assigned:{digest(VALUE)}›"


@pytest.mark.parametrize(
    "name",
    "max_tokens token_count tokenizer input_tokens next_page_token tokens key public_key primary_key"
    " author password_hint secretName token_type text tokenFile secret_arn monkey credentials_file"
    " compass -".split(),
)
def test_the_value_under_a_harmless_name_is_kept(name):
    assert scrub(VALUE, name) is VALUE


@pytest.mark.parametrize(
    ("text", "name"),
    [
        *[(word, "password") for word in ("true", "", "<password>", "********", "$PASSWORD")],
        *[(word, "token") for word in ("None", "${TOKEN}", "12345678", "short", "two words")],
        *[(text, "password") for text in ("{{ vault.password }}", "a\nb", "x" * 201)],
        ("/home/me", "PWD"),
    ],
)
def test_a_value_that_cannot_be_a_secret_is_kept_under_any_name(text, name):
    assert scrub(text, name) is text


def test_a_password_may_be_a_sentence_a_number_or_one_letter():
    for password in ("correct horse battery", "20241231", "q"):
        assert scrub(password, "password") == f"‹secret:assigned:{digest(password)}›"


def test_an_authorization_value_keeps_its_scheme():
    assert scrub(f"Bearer {VALUE}", "Authorization") == f"Bearer ‹secret:bearer:{digest(VALUE)}›"


def test_a_longer_text_under_a_secret_name_is_still_searched():
    text = pem("PRIVATE " + "KEY")
    assert scrub(text, "private_key").startswith("‹secret:private-key:")


def test_a_harmless_name_does_not_protect_a_key():
    assert scrub(VENDOR_KEYS[0][1], "token_count").startswith("‹secret:anthropic:")


def test_overlapping_finds_become_one_placeholder():
    secret = VENDOR_KEYS[0][1]
    text = f'export API_KEY="{secret}" # Authorization: Bearer {secret}'
    assert len(placeholder_pattern.findall(scrub(text))) == 2
    assert secret not in scrub(text)


def test_redacting_a_truncated_private_key_keeps_the_text_after_it():
    text = pem("PRIVATE " + "KEY", end=False) + "\n\n... (truncated)"
    assert re.fullmatch(r"‹secret:private-key:[0-9a-f]{12}›\s+\.\.\. \(truncated\)", scrub(text))


def test_a_secret_beside_other_scripts_and_lone_surrogates_is_found():
    secret = VENDOR_KEYS[0][1]
    assert scrub(f"\ud800 ключ: {secret} 🔑") == f"\ud800 ключ: {scrub(secret)} 🔑"
    assert scrub("пароль\ud800", "password").startswith("‹secret:assigned:")


# --- properties --------------------------------------------------------------------------------

contexts = st.sampled_from(
    [
        *[
            "{}",
            "\n{}\n",
            " {} ",
            '{{"a": "{}"}}',
            '{{\\"a\\": \\"{}\\"}}',
            ": {}",
            "# {}",
            "x.{} ",
        ],
        *"\"{}\" '{}' `{}` ({}) [{}] <{}> ={} ,{}, x={}; /{}? ->{} |{}| @{} é{}ü".split(),
        *r"\n{}\n \t{} %3D{}%26 \u0027{}\u0027".split(),
        "\x1b[31m{}\x1b[0m",
    ]
)
shaped = st.sampled_from([secret for kind, secret in VENDOR_KEYS if kind != "private-key"])
surroundings = st.text(max_size=40)
pieces = st.sampled_from(
    [secret for _, secret in VENDOR_KEYS]
    + [text for _, text, _ in CASES]
    + ["password", "token", "=", ": ", '"', "'", "\\", "\\n", "\n", " ", "://", "@", ":", "‹", "›"]
    + ["‹secret:", "--", "sk-", "eyJ", "AKIA", "-----BEGIN ", "PRIVATE KEY-----", "Bearer ", "abc1"]
    + ["‹secret:openai:0123456789ab›", "API_KEY=", "export ", "secret", "x" * 20, MIX, "{", "$"]
)


def stands_free(before: str, after: str) -> bool:
    """Whether a secret between these texts is a separate word."""
    return not re.search(r"[\w-]$", before) and not re.match(r"[\w.-]", after)


@given(shaped, contexts, surroundings, surroundings)
def test_a_secret_is_never_part_of_the_output(secret, context, before, after):
    assume("://" not in before)
    inner = context.format(secret)
    glued = inner.startswith(secret) or inner.endswith(secret)
    assume(not glued or stands_free(before, after))
    assert secret not in scrub(before + inner + after)


@given(st.lists(pieces, max_size=8))
def test_scrubbing_scrubbed_text_changes_nothing(parts):
    once = scrub("".join(parts))
    assert scrub(once) is once


@given(st.text(), st.sampled_from(["password", "api_key", "authorization", "text"]))
def test_scrubbing_a_scrubbed_value_changes_nothing_under_its_name(text, name):
    once = scrub(text, name)
    assert scrub(once, name) is once


@given(st.lists(pieces, max_size=8))
def test_text_that_is_not_replaced_is_unchanged(parts):
    text = "".join(parts)
    kept = placeholder_pattern.split(scrub(text))
    at = 0
    for part in kept:
        at = text.index(part, at) + len(part)


@given(st.text(alphabet="abcdefghij ,.\n\t(){}'\"“”é中", max_size=300))
def test_ordinary_prose_is_unchanged(text):
    assert scrub(text) is text


# --- cost --------------------------------------------------------------------------------------

UNITS = ["password", "password=", 'password="', "eyJ", "eyJ" + "a" * 12 + ".", "-----BEGIN"]
UNITS += [
    "-----BEGIN RSA PRIVATE " + "KEY-----\n",
    "-----END PRIVATE " + "KEY-----",
    "://",
    "://a:",
]
UNITS += ["@", "a@", "sk-", "sk-ant-", "token: ", "api_key=", "--token ", "Bearer ", ":AA", "\\"]


class Counting:
    """A pattern or finder that counts its calls."""

    def __init__(self, find: Callable[..., Any]) -> None:
        self._find = find
        self.calls = 0

    def __call__(self, *args: Any) -> Any:
        self.calls += 1
        return self._find(*args)


@pytest.mark.parametrize("unit", UNITS)
def test_the_work_on_a_hostile_text_is_proportional_to_its_length(unit, monkeypatch):
    def looks(size: int) -> int:
        counting = [Counting(find) for _, find in secret_names.NAMES]
        names = tuple(
            (pattern, c) for (pattern, _), c in zip(secret_names.NAMES, counting, strict=True)
        )
        shape = Counting(secret_shapes._Shape.find)
        url = Counting(secret_names._url_password)
        with monkeypatch.context() as patch:
            patch.setattr(secret_names, "NAMES", names)
            patch.setattr(secret_shapes._Shape, "find", lambda *args: shape(*args))
            patch.setattr(secret_names, "_url_password", url)
            scrub(unit * (size // len(unit)))
        return sum(c.calls for c in [*counting, shape, url])

    few, many = looks(4_000), looks(16_000)
    assert many <= 4 * few + 16
    assert many <= 16_000


def test_no_pattern_repeats_without_a_bound():
    modules = (redact, secret_names, secret_shapes, secret_spans)
    late = [value for module in modules for value in vars(module).values()]
    patterns: list[Any] = [value for value in late if isinstance(value, LatePattern)]
    assert len(patterns) > 20
    patterns += [shape.pattern for shape in (*secret_shapes.SHAPES, *secret_shapes._BARE_SHAPES)]
    patterns += [pattern for pattern, _ in secret_names.NAMES]
    for pattern in patterns:
        source = pattern.pattern if isinstance(pattern.pattern, str) else pattern.pattern.decode()
        bare = re.sub(r"\\.|\[(?:\\.|[^\]\\])[^\]]*\]", "_", source)
        assert not re.search(r"(?<![}(])[*+]|\{\d+,\}", bare), source


def test_the_standard_library_has_almost_no_false_positives():
    redactor = Redactor(KEY)
    root = Path(os.__file__).parent
    for folder in (".", "asyncio", "email", "http", "json", "logging", "urllib", "xml"):
        for source in sorted((root / folder).glob("*.py")):
            redactor.scrub(source.read_text(encoding="utf-8", errors="replace"))
    assert redactor.hits < 20
