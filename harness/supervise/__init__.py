"""Nothing outlives the harness: processes, mounts, settings and work directories.

``supervisor`` starts one small process that holds a lifeline to the harness and
cleans up when the lifeline ends; ``journal`` notes every change before it is made,
and ``recover`` undoes what even the supervisor could not; ``credentials`` names the
unprivileged user that servers run as.

``daemon``, ``child``, ``undo``, ``process`` and ``linux`` run inside the supervisor
process: standard library only, and this file imports nothing, so that it starts in
some tens of milliseconds and stays small.
"""
