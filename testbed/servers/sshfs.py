"""sshfs: OpenSSH's server on loopback with keys of its own, and a directory of it mounted by sshfs."""

import os
import pwd
import subprocess

from servers.process import FileServer, Unavailable, free_port, install

PACKAGES = {"openssh-server": "/usr/sbin/sshd", "openssh-client": "ssh-keygen", "sshfs": "sshfs"}

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


class Sshfs(FileServer):
    """A server over `root` (or `directory`/files), and its mount `mounted`; `directory` keeps keys, configuration and log."""

    name = "sshfs"

    def __enter__(self):
        install(PACKAGES)
        if not os.access("/dev/fuse", os.R_OK | os.W_OK):
            raise Unavailable("/dev/fuse may not be opened")
        self.port = free_port()
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.directory, exist_ok=True)
        os.makedirs("/run/sshd", exist_ok=True)
        for key in ("host-key", "user-key"):
            path = os.path.join(self.directory, key)
            if not os.path.exists(path):
                subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", path], check=True)
        configuration = os.path.join(self.directory, "sshd_config")
        with open(configuration, "w") as out:
            out.write(CONFIGURATION.format(port=self.port, address=self.host.address, directory=self.directory))
        self._run(["/usr/sbin/sshd", "-D", "-e", "-f", configuration], os.path.join(self.directory, "sshd.log"))
        try:
            self._mount()
        except BaseException:
            self.server.stop()
            raise
        return self

    def _mount(self):
        self.mounted = os.path.join(self.directory, "mounted")
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
        argv = ["sshfs", f"{user}@{self.host.address}:{self.root}", self.mounted, *flags]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        if done.returncode != 0:
            raise Unavailable(f"sshfs: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", "-z", self.mounted], capture_output=True, check=False)
        super().__exit__()
