#!/bin/sh
# Runs the fast tests in environments that users have. Whatever is set there, the tests must pass.
set -eu
cd "$(dirname "$0")/.."
where=$(mktemp -d)
trap 'chmod -R u+w "$where"; rm -rf "$where"' EXIT

mkdir -p "$where/configured/.config/agentos" "$where/read-only"
cat > "$where/configured/.config/agentos/config.toml" <<'TOML'
drafter = "gemini:some-other-model"
reviewer = "anthropic:some-other-model"
max_parallel = 40
output = "grouped"
TOML
chmod 0555 "$where/read-only"

# try NAME=VALUE...: runs the tests with these variables set.
try() {
    printf '\n=== %s\n' "$*"
    env "$@" .venv/bin/python -m pytest --numprocesses 4 --dist worksteal -m 'not slow and not chaos' \
        tests/unit/cli tests/unit/console tests/unit/llm tests/unit/workflows tests/unit/test_settings.py \
        tests/integration/test_config.py tests/integration/console tests/integration/doctor \
        tests/acceptance/test_commands.py tests/acceptance/test_endings.py tests/acceptance/test_status.py \
        tests/acceptance/test_bad_input.py tests/acceptance/test_report.py
}

try NO_COLOR=1 LC_ALL=C LANG=C
try FORCE_COLOR=1 HTTPS_PROXY=http://127.0.0.1:9 HTTP_PROXY=http://127.0.0.1:9 https_proxy=http://127.0.0.1:9
try CI=true COLUMNS=40 LINES=10
try GITHUB_ACTIONS=true GITHUB_STEP_SUMMARY="$where/summary.md"
try HOME="$where/configured"
try XDG_CONFIG_HOME="$where/configured/.config" AGENTOS_DRAFTER=gemini:x AGENTOS_PARALLEL=7 AGENTOS_HOME="$where/home" \
    AGENTOS_CONFIG="$where/nowhere.toml" OPENAI_API_KEY=sk-not-for-tests GH_TOKEN=not-for-tests
try HOME="$where/read-only"
try HOME=/dev/null
[ ! -e "$where/home" ] && [ ! -e "$where/summary.md" ] # nothing was written where the user's variables point
printf '\nThe tests pass in every environment.\n'
