"""Where a command runs: a directory on the real disk with the files that its user has, and the servers that it talks to.

A command that needs nobody runs on this machine as it is. Where it talks to somebody, it runs in a network namespace with an /etc/hosts of its own, so that
servers have the names and ports that people type: `mirror` (nginx), `backup` (sshd), and on `localhost` redis and PostgreSQL. Between the two lies the relay,
with a delay and a rate if the command's path has them.

A command may be an ordinary user's. Then its files and what serves on `localhost` are that user's, too; `mirror` and `backup` are other machines of other people.
"""

import os
import shutil
import subprocess
import sys

from testbed import files, shell
from testbed.errors import Broken, NotRun
from testbed.links import Pair
from testbed.packages import missing
from testbed.paths import REPOSITORY
from testbed.processes import Process
from testbed.undoing import Undoing

STACK = os.path.join(REPOSITORY, "lab", "scripts", "slow", "stack.py")
MAKE_FILES = os.path.join(REPOSITORY, "lab", "answers", "make-files")
RUN_TIMEOUT_S = 120
# ~/.ssh of the command's user, and of nobody else: the directory is mounted there for the command alone.
WITH_KEYS = 'mount --bind "$0" "$HOME/.ssh" && exec "$@"'
# The same for a user whom /etc/passwd gives no home to put them in.
WITH_HOME_AND_KEYS = 'mount --bind "$0/passwd" /etc/passwd && exec "$@"'
# The repository that root's git serves over ssh is that user's.
SSHD_OF_OTHERS = "SetEnv GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0=safe.directory GIT_CONFIG_VALUE_0=*\n"
NGINX = """daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.log; user root;
events {{ worker_connections 256; }}
http {{
    access_log off; default_type application/octet-stream; sendfile on; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;
    fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
    server {{ listen {address}:80; root {root}; }}
}}
"""
SSHD = """Port 22
ListenAddress {address}
HostKey {directory}/keys/host
PidFile {directory}/sshd.pid
AuthorizedKeysFile {directory}/keys/id_ed25519.pub
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp /usr/lib/openssh/sftp-server
"""
SSH = """Host backup
User root
IdentityFile ~/.ssh/id_ed25519
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
"""


class Place(Undoing):
    """Entered, the files are made and the servers run; `directory` is where the command runs."""

    def __init__(self, command, scratch, program, relay, user=None):
        super().__init__()
        self.user = user
        self.command = command
        self.directory = os.path.join(scratch.directory, command.name)
        self.beside = os.path.join(scratch.directory, f"{command.name}-servers")
        self.name = scratch.name
        self.program, self.relay = program, relay
        self.network = None

    def _set_up(self):
        absent = missing({program: program for program in self.command.needs})
        if absent:
            raise NotRun(f"not installed: {' '.join(absent)}")
        for directory in (self.directory, self.beside):
            os.makedirs(directory)
            os.chmod(directory, 0o755)
            self.undo.callback(shutil.rmtree, directory, ignore_errors=True)
        for words in self.command.files:
            self.shell(f"{sys.executable} {MAKE_FILES} {words}", "its files")
        if self.command.servers:
            self._network()
        for server in self.command.servers:
            getattr(self, f"_{server}")()
        if self.command.once:
            self.shell(self.command.once, "once")
        self._hand_over()

    def _hand_over(self):
        if self.user:
            self.user.give(self.directory)

    def _network(self):
        path = {"delay": "0ms", **self.command.path}
        self.network = Pair("relay", self.name, {"client": None, "server": None}, self.relay, self.beside)
        self.undo.callback(self.network.remove)
        self.network.make()
        self.network.use_todays_congestion_control()
        self.network.start_relay(path)
        far = self.network.server.address
        with open(os.path.join(self.beside, "hosts"), "w") as out:
            out.write(f"127.0.0.1 localhost\n{far} mirror backup\n{self.network.client.address} here\n")
        os.makedirs(os.path.expanduser("~/.ssh"), mode=0o700, exist_ok=True)
        self.keys = os.path.join(self.beside, "keys")
        os.mkdir(self.keys, 0o700)
        if self.user:
            with open(os.path.join(self.user.home, "passwd"), "w") as out:
                out.write(f"root:x:0:0:root:/root:/bin/sh\n{self.user.name}:x:{self.user.number}:{self.user.number}::{self.user.home}:/bin/sh\n")

    def _started(self, argv, host, port, **popen):
        process = Process(argv, os.path.join(self.beside, f"{os.path.basename(argv[0])}.log"), host, **popen)
        self.undo.callback(process.stop)
        process.wait_for_port(port)

    def _configured(self, name, text, **words):
        path = os.path.join(self.beside, name)
        with open(path, "w") as out:
            out.write(text.format(directory=self.beside, address=self.network.server.address, **words))
        return path

    def _nginx(self):
        configuration = self._configured("nginx.conf", NGINX, root=self.directory)
        self._started(["nginx", "-c", configuration, "-p", self.beside, "-e", f"{self.beside}/nginx.log"], self.network.server, 80)

    def _sshd(self):
        os.makedirs("/run/sshd", exist_ok=True)
        for name in ("host", "id_ed25519"):
            shell.run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", os.path.join(self.keys, name))
        with open(os.path.join(self.keys, "config"), "w") as out:
            out.write(SSH)
        if self.user:
            self._give_keys()
        text = SSHD + SSHD_OF_OTHERS if self.user else SSHD
        self._started(["/usr/sbin/sshd", "-D", "-f", self._configured("sshd_config", text)], self.network.server, 22)

    def _give_keys(self):
        """The user's own keys, and a home to find them in: ssh asks /etc/passwd, and not the environment."""
        own = os.path.join(self.user.home, ".ssh")
        shutil.copytree(self.keys, own, dirs_exist_ok=True)
        os.chmod(own, 0o700)
        self.user.give(own)

    def _postgres(self):
        data = self._of_user("postgres")
        self._started(["/usr/bin/python3", STACK, "5432", "--only", "postgres", "--data", data], self._near(), 5432)

    def _redis(self):
        words = ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", self._of_user("redis")]
        self._started(words, self._near(), 6379)

    def _store(self):
        words = [self.program, "up", "--port", "7000", "--emulate", "disk=200MiB/s,link=2Gb/s,rtt=0.2ms", self._of_user("store")]
        self._started(words, self._near(), 7000)

    def _near(self):
        """The client's host, whose servers are the user's."""
        return self.network.client.owned(self.user)

    def _of_user(self, name):
        """A directory for a server's data, which is the user's."""
        path = os.path.join(self.beside, name)
        os.mkdir(path)
        if self.user:
            self.user.give(path)
        return path

    def argv(self, argv):
        """The command as this place starts it."""
        return self._there(self.user.argv(argv), WITH_HOME_AND_KEYS, self.user.home) if self.user else self.as_root(argv)

    def as_root(self, argv):
        """What root does around the runs."""
        return self._there(argv, WITH_KEYS, getattr(self, "keys", None))

    def _there(self, argv, how, *words):
        if not self.network:
            return list(argv)
        return self.network.client.argv(["unshare", "--mount", "sh", "-c", how, *words, *argv])

    def shell(self, text, what, check=True, start=None):
        """What is done around the runs, in the command's directory."""
        done = subprocess.run(
            (start or self.as_root)(["sh", "-c", text]), cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        if check and done.returncode:
            raise Broken(f"{what}: `{text}` ended with {done.returncode}: {shell.last_line(done.stderr + done.stdout)}")

    def restore(self):
        """Put the files and the cache back to what the command found."""
        if self.command.before:
            # What was copied over ssh lies at root's.
            self.shell(self.command.before, "before each run", start=self.as_root if "sshd" in self.command.servers else self.argv)
        self._hand_over()
        os.sync()
        for name in self.command.cold:
            path = os.path.join(self.directory, name)
            for one in files.files_under(path) if os.path.isdir(path) else [path]:
                files.make_cold(one)
        if self.command.drop_caches:
            shell.write("/proc/sys/vm/drop_caches", "3")
