"""The answer of ``harness run … --target``: the most load within a latency."""

from __future__ import annotations

from collections.abc import Sequence

from harness import paths
from harness.cli import show
from harness.cli.common import given, print_json
from harness.cli.run_list import print_run_list
from harness.execution.environment import Environment
from harness.execution.resolved_run import ResolvedRun
from harness.experiment.study import Made
from harness.load_search import MOST_WINDOWS
from harness.store.run_store import Store
from harness.terminal import say, say_command


def print_target(made: Made, json_: bool) -> None:
    """Print the sentence of each engine and the loads that were tried; exit 1 after a failure."""
    from reports.load_target import target_answers
    from reports.page import print_blocks

    answers = target_answers(made.attempts)
    if json_:
        runs = [stored.document for stored in made.attempts]
        print_json({"answers": [answer.to_json() for answer in answers], "runs": runs})
    else:
        for answer in answers:
            say(f"{answer.sentence}.")
            print_blocks([answer.table()])
        for stored in made.attempts:
            for line in show.problems(stored.result):
                say(f"{stored.run_id}: {line}")
        if made.attempts:
            entry, root = made.attempts[0].head.experiment, made.attempts[0].results
            is_default = root.resolve() == paths.results_root(None).resolve()
            say("Next:")
            results = given(None if is_default else root)
            say_command(f"harness report -e {entry.name}@{entry.hash}{results}")
    show.exit_for(made.attempts)


def list_search(
    steps: Sequence[ResolvedRun], earlier: Store, env: Environment, json_: bool
) -> None:
    """Print the first windows, and how many may follow."""
    print_run_list(steps, earlier, env, json_, repeated=False)
    if not json_:
        say(f"at most {MOST_WINDOWS - 1} more windows on each follow, at loads that results choose")
