"""What counts as a secret: by the name of a file, and by what is in it. Every secret here is made up."""

import pytest

from agentos.repo_map.secret_files import secret_in, secret_name

HEX = "f8a7d6c5b4a39281706f" + "5e4d3c2b1a09"
STRONG = "Kx9mQ2v" + "L7pRz"

SECRETS = (
    f'SECRET_KEY = "k8f2m3x9q0w7e6r5t4y3{HEX}"',
    f'SECRET_KEY = "django-insecure-#{HEX}$%"',
    f'token: str = "{HEX}"',
    f'TOKEN: Final[str | None] = "{HEX}"',
    f'export const apiToken: string = "{HEX}";',
    f'os.environ["PAYMENT_TOKEN"] = "{HEX}"',
    f'os.environ.get("PAYMENT_TOKEN", "{HEX}")',
    f'export API_KEY_PROD="{HEX}"',
    f"API_KEY_PROD={HEX} ./deploy",
    f'STRIPE_KEY = "{HEX}"',
    f"curl -H 'Authorization: Bearer {HEX}'",
    f'headers = {{"Authorization": "Bearer {HEX}"}}',
    f"Authorization: token {HEX}",
    f'curl -H "X-Api-Key: {HEX}"',
    f'"Default": "Server=db;User Id=sa;Password={STRONG};"',
    f"password: {STRONG}!",
    f"DB_PASS={STRONG}",
    f'db_pass = "{STRONG}"',
    "db_password = 'Ab3$" + "kd9X!fqq'",
    f'password = "{STRONG[:7]} {STRONG[7:]}"',
    'password = "Super' + 'Secret123!"',
    'password = "test' + f'{STRONG}"',
    "PASSWORD=50%" + STRONG,
    f"<password>{STRONG}</password>",
    f'<add key="ApiKey" value="{HEX}"/>',
    f"- name: API_TOKEN\n  value: {HEX}",
    f"users: [{{user: {{client-key-data: LS0t{HEX}}}}}]",
    "https://hooks.slack.com/services/T0AB12CD3/B0EF45GH6/" + "a1B2c3D4e5F6g7H8i9J0k1L2",
    "hf_" + "aBcDeFgHiJkLmNoPqRsTuVwXyZaBcDeFgH",
    "pypi-" + "AgEIcHlwaS5vcmcCJDYwYjk2MzA0LTdhMGItNDJkZC1hM2Y0LWI2",
    "SG." + "aB1cD2eF3gH4iJ5kL6mN7o.pQ8rS9tU0vW1xY2zA3bC4dE5fG6hI7jK8lM9nO0pQ1r",
    "GOCSPX-" + "abCdEfGhIjKlMnOpQrStUvWxYz12",
    "AccountName=x;AccountKey=" + "abCdEfGhIjKlMnOpQrStUvWxYz0123456789abCdEfGhIj==;",
    'AWS_SECRET = "wJalrXUtnFEMI/' + 'K7MDENG/bPxRfiCYzzzKEYabcd"',
    f"postgres://admin:{STRONG}@db.internal/app",
    f"redis://:{STRONG}@cache",
)
HARMLESS = (
    '_PassArg.environment: "environment",',
    "token: str",
    "token: str | None = None",
    "token: str = get_token()",
    "const token: string = await login(user1, password2);",
    "token = get_token()",
    "token = tokens[0]",
    "token = leased.secret2.value1",
    "password = form.password1",
    "password: uint256;",
    "secret_key: SecretStr32",
    "key = sorted(items, key=lambda one: one.rank)",
    'key = "user:profile:v2"',
    'sort_key = "2024-01-01T00:00:00"',
    '"primary_key": "123e4567-e89b-12d3-a456-426614174000"',
    f'PUBLIC_KEY = "{HEX}"',
    f'page_token = "{HEX}"',
    'token_url = "https://auth.example.com/v2/oauth2/token"',
    'secret_file = "/run/secrets/db_password_2024"',
    'PASSWORD_LABEL = "Password2"',
    '"password": "Contraseña"',
    '"forgotPassword": "Forgot your password?"',
    '["username", "password", "repository2"]',
    'password = "test1234"',
    'password = "Password123"',
    'password = "my-secret-password"',
    'token = "test-token-1234567890"',
    'token = "your-api-token-here-12345"',
    'api_key = "{{ vault.api_key_2 }}"',
    'password = f"{prefix}-12345"',
    "password: ${DB_PASSWORD_2}",
    'PASSWORD="$PGPASS2"',
    "password=%s",
    "postgres://postgres:postgres@localhost/app",
    "Authorization: Bearer <your token here>",
    "Authorization: Bearer $TOKEN_OF_THE_USER_1",
    "We bypass the 2nd token bucket: see src/bucket2.py",
)


@pytest.mark.parametrize("text", SECRETS)
def test_a_secret_is_recognised(text: str) -> None:
    assert (secret_in(f"first\n{text}\nlast") or "").startswith(("line 2 ", "line 3 "))
    assert secret_in(text) is not None


@pytest.mark.parametrize("text", HARMLESS)
def test_code_and_made_up_values_are_no_secrets(text: str) -> None:
    assert secret_in(f"first\n{text}\nlast") is None


def test_letters_that_grow_in_lower_case_do_not_move_a_value() -> None:
    assert secret_in(f'İİİİİİİİ\nTOKEN = "{HEX}"') == "line 2 looks like a key or token"


@pytest.mark.parametrize(
    "name",
    [
        "prod.env", ".envrc", ".env-prod", "terraform.tfvars", "prod.auto.tfvars", "terraform.tfstate",
        "terraform.tfstate.backup", "kubeconfig", "kubeconfig.yaml", "prod.kubeconfig", "AuthKey.p8",
    ],
)  # fmt: skip
def test_a_name_can_say_that_a_file_holds_secrets(name: str) -> None:
    assert secret_name(name)


@pytest.mark.parametrize(
    "name", ["env.py", "environment.ts", "example.env", "terraform.tfvars.example", "main.tf", "key.py"]
)
def test_other_names_do_not(name: str) -> None:
    assert not secret_name(name)


@pytest.mark.parametrize(
    "piece",
    [
        "-eyJ", "eyJa.", "password", "token: ", "key='", "://a:", "bearer ", "sk-", "SG.a", "basic ",
        "curl -u ", "mysql -", "kind: Secret\n", "kind: Secret\n---\n", "data:\n a: b\n", "$6$",
        "-----BEGIN PRIVATE KEY----- -", 'pass \\"', "login('a','", "<password>",
        'password" {\n default', "password with a by ",
    ],
)  # fmt: skip
def test_a_text_made_to_be_slow_is_read_at_once(piece: str) -> None:
    """With a quantifier that has no bound, this test would not end."""
    assert secret_in(piece * (1_000_000 // len(piece))) is None
