"""What can be made wrong, one file each. Adding a fault is one file and one line in `FAULTS`.

A fault is a class whose constructor takes its size, so that a scenario can say it and a re-run can change it. What it may do:
set something around a run (`applied`), act while the run goes on (`during`), change how the relay is started (`relay`) or how the
recorder is (`record_flags`). What it sets it takes back, also when the run fails. `NotRun` says why a machine cannot do it.
"""

from faults.base import Fault
from faults.command import Command, ServerCommand
from faults.cpu_quota import CpuQuota
from faults.dirty import DirtyLimit
from faults.held_lock import HeldLock
from faults.hog import Hog
from faults.link import LinkRate
from faults.loss import Loss
from faults.netem import Netem
from faults.recorder_spin import RecorderSpin
from faults.relay import Relay
from faults.slow_disk import SlowDisk
from faults.stop import Stop
from faults.throttled_disk import ThrottledDisk
from faults.window import Window

FAULTS = {
    "command": Command,
    "cpu_quota": CpuQuota,
    "dirty": DirtyLimit,
    "held_lock": HeldLock,
    "hog": Hog,
    "link": LinkRate,
    "loss": Loss,
    "netem": Netem,
    "none": Fault,
    "recorder_spin": RecorderSpin,
    "relay": Relay,
    "server_command": ServerCommand,
    "slow_disk": SlowDisk,
    "stop": Stop,
    "throttled_disk": ThrottledDisk,
    "window": Window,
}
