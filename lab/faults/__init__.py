"""What can be made wrong, one file each. Adding a fault is one file and one line in `FAULTS`.

A fault is a class whose constructor takes its size, so that a scenario can say it and a re-run can change it. What it may do:
set something around a run (`applied`), act while the run goes on (`during`), change how the relay is started (`relay`) or how the
recorder is (`record_flags`). What it sets it takes back, also when the run fails. `NotRun` says why a machine cannot do it.
"""

from lab.faults.base import Fault
from lab.faults.command import Command, ServerCommand
from lab.faults.cpu_quota import CpuQuota
from lab.faults.dirty import DirtyLimit
from lab.faults.held_lock import HeldLock
from lab.faults.hog import Hog
from lab.faults.link import LinkRate
from lab.faults.loss import Loss
from lab.faults.lost_syn import LostSyn
from lab.faults.netem import Netem
from lab.faults.recorder_spin import RecorderSpin
from lab.faults.relay import Relay
from lab.faults.slow_disk import SlowDisk
from lab.faults.stop import Stop
from lab.faults.throttled_disk import ThrottledDisk
from lab.faults.window import Window

FAULTS = {
    "command": Command,
    "cpu_quota": CpuQuota,
    "dirty": DirtyLimit,
    "held_lock": HeldLock,
    "hog": Hog,
    "link": LinkRate,
    "loss": Loss,
    "lost_syn": LostSyn,
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
