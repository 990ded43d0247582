"""NFS: NFS-Ganesha in user space over one directory, NFSv3 on 127.0.0.1, with `nfs-cp` of libnfs as its client.

Ganesha gives up NFSv3 when it cannot register with `rpcbind`, and `rpcbind` cannot be told to listen on loopback alone (`-h
127.0.0.1` aborts it). It is therefore started in a network namespace of its own, where nobody can reach its ports, and in a
mount namespace with a private /run; Ganesha joins only the mount namespace and registers through the socket file in /run. The
client is given both ports and never asks rpcbind.

Ganesha keeps removed files open and so keeps their space: truncate a file before removing it, and do not use a name twice.
"""

import os

from servers.process import LOOPBACK, Server, Unavailable, free_port, install

PACKAGES = {
    "nfs-ganesha": "ganesha.nfsd",
    "nfs-ganesha-vfs": "/usr/lib/*/ganesha/libfsalvfs.so",
    "libnfs-utils": "nfs-cp",
    "rpcbind": "rpcbind",
    "util-linux": "nsenter",
}

CONFIGURATION = """NFS_CORE_PARAM {{
    NFS_Port = {nfs_port}; MNT_Port = {mount_port}; Bind_addr = {address}; Protocols = 3;
    Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false;
}}
NFSV4 {{ Graceless = true; Only_Numeric_Owners = true; RecoveryRoot = "{directory}/recovery"; }}
EXPORT {{
    Export_Id = 1; Path = "{export}"; Pseudo = "/export"; Access_Type = RW; Squash = None; SecType = sys;
    Protocols = 3; Transports = TCP; FSAL {{ Name = VFS; }}
}}
"""

RPCBIND = "mount -t tmpfs tmpfs /run && mkdir /run/rpcbind && { chown _rpc /run/rpcbind || true; } && exec rpcbind -f"


class NfsGanesha:
    """A server that exports `directory`/export, or the directory `export`; `directory` keeps its configuration, log and pid file."""

    name = "nfs"

    def __init__(self, directory, host=LOOPBACK, export=None):
        self.directory = os.path.abspath(directory)
        self.export = os.path.abspath(export) if export else os.path.join(self.directory, "export")
        self.host = host
        self.nfs_port = 0
        self.mount_port = 0
        self.servers = []

    def __enter__(self):
        if os.geteuid() != 0:
            raise Unavailable("NFS-Ganesha's VFS layer opens files by handle, which only root may")
        install(PACKAGES)
        os.makedirs(self.export, exist_ok=True)
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self):
        rpcbind = ["unshare", "-m", "-n", "--propagation", "private", "sh", "-c", RPCBIND]
        portmapper = Server(rpcbind, os.path.join(self.directory, "rpcbind.log"))
        self.servers.append(portmapper)
        socket_file = f"/proc/{portmapper.pid}/root/run/rpcbind.sock"
        own_run = os.path.join("/proc", str(portmapper.pid), "root/run")
        portmapper.wait_until(
            "rpcbind's socket", lambda: os.stat(own_run).st_dev != os.stat("/run").st_dev and os.path.exists(socket_file)
        )
        self.nfs_port, self.mount_port = free_port(), free_port()
        configuration = os.path.join(self.directory, "ganesha.conf")
        with open(configuration, "w") as out:
            out.write(
                CONFIGURATION.format(
                    nfs_port=self.nfs_port,
                    mount_port=self.mount_port,
                    directory=self.directory,
                    export=self.export,
                    address=self.host.address,
                )
            )
        log = os.path.join(self.directory, "ganesha.log")
        pid_file = os.path.join(self.directory, "ganesha.pid")
        argv = ["nsenter", "-m", "-t", str(portmapper.pid), "ganesha.nfsd", "-F", "-f", configuration, "-L", log]
        ganesha = Server([*argv, "-p", pid_file], log, self.host)
        self.servers.append(ganesha)
        ganesha.wait_for_port(self.nfs_port)
        ganesha.wait_for_port(self.mount_port)

    def __exit__(self, *_):
        while self.servers:
            self.servers.pop().stop()

    def address(self, name):
        """The URL that `nfs-cp` takes for a file of the export."""
        ports = f"version=3&nfsport={self.nfs_port}&mountport={self.mount_port}"
        return f"nfs://{self.host.address}{self.export}/{name}?{ports}"

    def remove(self, name):
        """Give back a file's space although Ganesha still has it open."""
        path = os.path.join(self.export, name)
        if os.path.exists(path):
            os.truncate(path, 0)
            os.unlink(path)

