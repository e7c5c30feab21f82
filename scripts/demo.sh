#!/usr/bin/env bash
# The main job on real data: TPC-H on DuckDB and PostgreSQL, on the disk and on PMem
# (or a tmpfs that stands in for it, marked EMULATED), checked, compared, reported.
# It has the repeats that its verdicts need, and takes a few minutes. It ends with a line for each
# verdict and failed run; where runs failed, the others are compared, and the exit status is 1.
set -euo pipefail
cd "$(dirname "$0")/.."
results=${HARNESS_RESULTS:-results}
emulate=()
if ! .venv/bin/harness doctor --json | .venv/bin/python -c '
import json, sys
sys.exit("pmem" not in {tier["name"] for tier in json.load(sys.stdin)["tiers"]})'; then
  echo "No PMem here: a tmpfs stands in for it; its numbers are marked EMULATED." >&2
  emulate=(--emulate pmem)
fi
status=0
.venv/bin/harness experiment run demo "${emulate[@]}" --results "$results" || status=$?
[ "$status" -le 1 ] || exit "$status" # refused, or interrupted
.venv/bin/harness report --experiment demo --results "$results" --out "$results/demo-report"
exit "$status"
