"""Makes the playbooks' own code importable."""

import playbook_modules  # noqa: F401
