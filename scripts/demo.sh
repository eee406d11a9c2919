#!/bin/sh
# Runs a demo backlog offline, with the mock, and shows every way an item can end. Exits 0 if each run ended as expected.
# Each demo gets a new folder, which stays, so that you can look at its report.
set -eu
cd "$(dirname "$0")/.."
checkout=$PWD
name=demo
number=1
while [ -e "$name" ]; do
    number=$((number + 1))
    name="demo-$number"
done
demo="$checkout/$name"
# The user's settings must not change how the demo ends.
for variable in $(env | sed -n 's/^\(AGENTOS_[A-Z0-9_]*\)=.*/\1/p'); do unset "$variable"; done
export XDG_CONFIG_HOME="$demo/no-settings-of-the-user"

step() { printf '\n=== %s\n' "$1"; }

# run EXPECTED-CODE COMMAND...: shows the command, runs it and checks its exit code.
run() {
    expected=$1
    shift
    printf '\n$ %s\n' "$*"
    code=0
    "$@" || code=$?
    if [ "$code" -ne "$expected" ]; then
        printf '\nThe demo expected exit code %s, but got %s.\n' "$expected" "$code" >&2
        exit 1
    fi
}

step "A backlog of nine issues, scripted to end in different ways"
run 0 agentos init --demo "$demo"
cd "$demo"
run 0 agentos lld --all --mock --dry-run

step "Three at a time: approved, revised, waiting for a person, stuck, failed, hanging, crashing, rate limited"
run 1 agentos lld --all --mock --parallel 3 --timeout 5s
report=$(agentos report)

step "A person answers the open question"
run 0 agentos decide LLD-43 --approve --note "Legal agrees to 30 days"
run 0 agentos lld 43 --mock

step "Approved items are skipped; if an issue changed, its design is revised"
printf '\nAlso offer Excel.\n' >> issues/active/41-export-as-csv.md
run 0 agentos lld 41 42 --mock

step "A run that is out of time stops; run the same command to resume"
run 75 agentos issue --all --mock --parallel 2 --run-timeout 1s
run 0 agentos issue --all --mock --parallel 2

step "A budget stops a run in time; raise it and run the same command to resume"
printf '\nNow with a limit.\n' >> issues/active/48-quota-friendly-sync.md
printf '\nNow with a limit.\n' >> issues/active/49-single-sign-on.md
run 5 agentos lld 48 49 --mock --parallel 2 --budget 0.005
run 0 agentos lld 48 49 --mock --parallel 2 --budget 1

step "What the exit codes mean"
cat <<'TEXT'
  0        everything is approved (or filed), or nothing was pending
  1        an item failed or timed out
  2        wrong usage or configuration, or no project here
  3        finished, but some items need revision, a decision, or filing
  4        no usable key
  5        budget reached
  75       stopped early; run the same command to resume
  130/143  interrupted / terminated; run the same command to resume
TEXT

step "The demo ended as expected. Look at the results:"
cat <<TEXT

  cd $name
  ../.venv/bin/agentos report $(basename "$(dirname "$report")") --open

opens the report of the main run in your browser. It is this file:

  $demo/$report

  ../.venv/bin/agentos view      shows all runs on a live page, with the questions that are waiting for you
  ../.venv/bin/agentos status    shows the latest run in the terminal

The documents are in $name/docs. Delete the folder $name when you are done with it.
TEXT
