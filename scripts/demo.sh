#!/bin/sh
# Runs a demo backlog offline, with the mock, through every ending; exits 0 when each run ended as it should.
# The backlog stays, in a folder of its own for every time, so that its report can be looked at.
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
# Nothing that the user has set may change how the demo ends.
for variable in $(env | sed -n 's/^\(AGENTOS_[A-Z0-9_]*\)=.*/\1/p'); do unset "$variable"; done
export XDG_CONFIG_HOME="$demo/no-settings-of-the-user"

step() { printf '\n=== %s\n' "$1"; }

# run EXPECTED-CODE COMMAND...: shows the command, runs it, and checks its exit code.
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

step "A backlog of nine issues, scripted so that each ends in another way"
run 0 agentos init --demo "$demo"
cd "$demo"
run 0 agentos lld --all --mock --dry-run

step "Three at a time: approved, revised, waiting for a person, stuck, failed, hanging, crashing, refused"
run 1 agentos lld --all --mock --parallel 3 --timeout 5s
report=$(agentos report)

step "A person decides the one that asked"
run 0 agentos decide LLD-43 --approve --note "Legal agrees to 30 days"
run 0 agentos lld 43 --mock

step "Approved items are skipped; a changed issue has its design revised"
printf '\nAlso offer Excel.\n' >> issues/active/41-export-as-csv.md
run 0 agentos lld 41 42 --mock

step "A run that is out of time stops resumable; the same command goes on"
run 75 agentos issue --all --mock --parallel 2 --run-timeout 1s
run 0 agentos issue --all --mock --parallel 2

step "A budget stops a run in time; with more of it the same command goes on"
printf '\nNow with a limit.\n' >> issues/active/48-quota-friendly-sync.md
printf '\nNow with a limit.\n' >> issues/active/49-single-sign-on.md
run 5 agentos lld 48 49 --mock --parallel 2 --budget 0.005
run 0 agentos lld 48 49 --mock --parallel 2 --budget 1

step "What the exit codes mean"
cat <<'TEXT'
  0        all approved (or filed), or nothing pending
  1        an item failed or timed out
  2        usage or configuration; no project here
  3        finished, but some items need revision, a decision, or filing
  4        no usable key
  5        budget reached
  75       stopped early; the same command resumes
  130/143  interrupted / terminated; the same command resumes
TEXT

step "The demo ended as it should. Look at what it left:"
cat <<TEXT

  cd $name
  ../.venv/bin/agentos report $(basename "$(dirname "$report")") --open

opens the report of the run with every ending in your browser. It is this file:

  $demo/$report

  ../.venv/bin/agentos view      shows all runs on a live page, with the questions that wait for you
  ../.venv/bin/agentos status    shows the latest run in the terminal

The documents are in $name/docs. Delete the folder $name when you are done with it.
TEXT
