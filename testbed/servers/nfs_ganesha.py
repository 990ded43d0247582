"""NFS: NFS-Ganesha in user space over one directory, NFSv3 on 127.0.0.1, with `nfs-cp` of libnfs as its client.

Ganesha gives up NFSv3 when it cannot register with `rpcbind`, and `rpcbind` cannot be told to listen on loopback alone (`-h
127.0.0.1` aborts it). It is therefore started in a network namespace of its own, where nobody can reach its ports, and in a
mount namespace with a private /run; Ganesha joins only the mount namespace and registers through the socket file in /run. The
client is given both ports and never asks rpcbind.

Ganesha keeps removed files open and so keeps their space: truncate a file before removing it, and do not use a name twice.
"""

import os

from testbed import files
from testbed.errors import NotRun
from testbed.processes import Process, free_port
from testbed.servers.base import Server

CONFIGURATION = """NFS_CORE_PARAM {{
    NFS_Port = {port}; MNT_Port = {mount_port}; Bind_addr = {address}; Protocols = 3;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
}}
NFSV4 {{ Graceless = true; Only_Numeric_Owners = true; RecoveryRoot = "{directory}/recovery"; }}
EXPORT {{
    Export_Id = 1; Path = "{root}"; Pseudo = "/export"; Access_Type = RW; Squash = None; SecType = sys;
    Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""

RPCBIND = "mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && { chown _rpc /run/rpcbind || true; } && exec rpcbind -f"


class NfsGanesha(Server):
    """A server that exports `root`; `mount_port` is the second port that it serves."""

    name = "nfs"
    log = "ganesha.log"
    packages = {
        "nfs-ganesha": "ganesha.nfsd",
        "nfs-ganesha-vfs": "/usr/lib/*/ganesha/libfsalvfs.so",
        "libnfs-utils": "nfs-cp",
        "rpcbind": "rpcbind",
        "util-linux": "nsenter",
    }

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.mount_port = 0
        self.rpcbind = None

    def __enter__(self):
        if os.geteuid() != 0:
            raise NotRun("NFS-Ganesha's VFS layer opens files by handle, which only root may")
        try:
            super().__enter__()
            self.process.wait_for_port(self.mount_port)
        except BaseException:
            self.__exit__()
            raise
        return self

    def argv(self):
        argv = ["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", RPCBIND]
        self.rpcbind = Process(argv, self.inside("rpcbind.log"))
        run = f"/proc/{self.rpcbind.pid}/root/run"
        self.rpcbind.wait_until(
            "rpcbind's socket", lambda: os.stat(run).st_dev != os.stat("/run").st_dev and os.path.exists(f"{run}/rpcbind.sock")
        )
        self.mount_port = free_port()
        configuration = self.configure("ganesha.conf", CONFIGURATION, mount_port=self.mount_port)
        words = ["-F", "-f", configuration, "-L", self.inside(self.log), "-p", self.inside("ganesha.pid")]
        return ["nsenter", "-m", "-t", str(self.rpcbind.pid), "ganesha.nfsd", *words]

    def __exit__(self, *_):
        super().__exit__()
        rpcbind, self.rpcbind = self.rpcbind, None
        if rpcbind:
            rpcbind.stop()

    def address(self, name):
        """The URL that `nfs-cp` takes for a file of the export."""
        ports = f"version=3&nfsport={self.port}&mountport={self.mount_port}"
        return f"nfs://{self.host.address}{self.root}/{name}?{ports}"

    def remove(self, name):
        """Give back a file's space although Ganesha still has it open."""
        files.give_back(os.path.join(self.root, name))
