"""sshfs: OpenSSH's server on loopback with keys of its own, and a directory of it mounted by sshfs."""

import os
import pwd
import subprocess

from testbed import shell
from testbed.errors import NotRun
from testbed.servers.base import Server

CONFIGURATION = """Port {port}
ListenAddress {address}
HostKey {directory}/host-key
AuthorizedKeysFile {directory}/user-key.pub
PidFile {directory}/sshd.pid
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin prohibit-password
Subsystem sftp internal-sftp
"""


class Sshfs(Server):
    """A server over `root`, and its mount `mounted`."""

    name = "sshfs"
    packages = {"openssh-server": "/usr/sbin/sshd", "openssh-client": "ssh-keygen", "sshfs": "sshfs"}

    def __init__(self, *arguments, **named):
        super().__init__(*arguments, **named)
        self.mounted = self.inside("mounted")

    def __enter__(self):
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise NotRun("/dev/fuse may not be opened")
        super().__enter__()
        try:
            self._mount()
        except BaseException:
            super().__exit__()
            raise
        return self

    def argv(self):
        os.makedirs("/run/sshd", exist_ok=True)
        for key in ("host-key", "user-key"):
            if not os.path.exists(self.inside(key)):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.inside(key)], check=True)
        return ["/usr/sbin/sshd", "-D", "-e", "-f", self.configure("sshd_config", CONFIGURATION)]

    def address(self, name):
        """What scp calls a file of the root."""
        return f"scp://{self.host.address}:{self.port}/{os.path.join(self.root, name)}"

    def _mount(self):
        os.makedirs(self.mounted, exist_ok=True)
        user = pwd.getpwuid(os.geteuid()).pw_name
        options = [
            f"port={self.port}",
            f"IdentityFile={self.directory}/user-key",
            "StrictHostKeyChecking=no",
            "UserKnownHostsFile=/dev/null",
            "BatchMode=yes",
        ]
        flags = [word for option in options for word in ("-o", option)]
        shell.run("sshfs", f"{user}@{self.host.address}:{self.root}", self.mounted, *flags)

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", "-z", self.mounted], capture_output=True, check=False)
        super().__exit__()
