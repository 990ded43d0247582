"""What lab, bench and gates stand on: hosts and links, disks, servers, processes, results.

It drives built commands and the kernel, from Python's standard library alone, and imports none of the rooms that use it. Whatever
it sets up is a context manager that takes it down again, also after Ctrl-C; what a killed run left behind, the next one of its kind
removes (`scratch`). What this machine cannot do raises `errors.NotRun` with one sentence that says why.
"""
