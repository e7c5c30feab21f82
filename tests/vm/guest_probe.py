"""Runs inside the test machine with its plain python3: the real probe, as JSON.

The argument is a JSON object: ``places`` (directories, ``/dev/dax…``, ``node:N``) to
read the facts of, and ``claims`` (fields of a TierClaim) to verify.
"""

import json
import pwd
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

sys.path.insert(0, "/opt/harness")

from harness.errors import UsageError
from harness.host.facts import host_facts
from harness.supervise.user_files import Credentials
from harness.tiers.discovery import discover
from harness.tiers.linux.kernel import LIVE
from harness.tiers.linux.model import TierClaim
from harness.tiers.linux.pmem import namespaces
from harness.tiers.linux.probe import facts_of_devdax, facts_of_directory, facts_of_numa
from harness.tiers.verify import verify


def facts(place: str) -> dict[str, object]:
    if place.startswith("node:"):
        return asdict(facts_of_numa(int(place[5:])))
    if place.startswith("/dev/dax"):
        return asdict(facts_of_devdax(place))
    return asdict(facts_of_directory(place))


def verdict(fields: dict[str, Any]) -> dict[str, object]:
    engines = pwd.getpwnam("engines")
    user = Credentials(engines.pw_uid, engines.pw_gid, "engines")
    nodes = tuple(fields.get("nodes", ()))
    try:
        return asdict(verify(TierClaim(**{**fields, "nodes": nodes}), user).record)
    except UsageError as error:
        return {"error": error.to_json()}


def main() -> None:
    asked = json.loads(sys.argv[1])
    discovered = discover(Path("/var/lib/tiers"))
    answer = {
        "places": {place: facts(place) for place in asked.get("places", [])},
        "claims": {claim["name"]: verdict(claim) for claim in asked.get("claims", [])},
        "namespaces": {n.name: n.mode for n in namespaces(LIVE)},
        "discovered": {name: asdict(tier.record) for name, tier in discovered.items()},
        "host": host_facts(discovered.values()),
    }
    print(json.dumps(answer))


main()
