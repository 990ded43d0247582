"""Where a command runs: a directory on the real disk with the files that its user has, and the servers that it talks to.

A command that needs nobody runs on this machine as it is. Where it talks to somebody, it runs in a network namespace with an /etc/hosts of its own, so that
servers have the names and ports that people type: `mirror` (nginx), `backup` (sshd), and on `localhost` redis and PostgreSQL. Between the two lies the relay,
with a delay and a rate if the command's path has them.
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

    def __init__(self, command, scratch, program, relay):
        super().__init__()
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
        self._started(["/usr/sbin/sshd", "-D", "-f", self._configured("sshd_config", SSHD)], self.network.server, 22)

    def _postgres(self):
        words = [sys.executable, STACK, "5432", "--only", "postgres", "--data", os.path.join(self.beside, "postgres")]
        self._started(words, self.network.client, 5432)

    def _redis(self):
        words = ["redis-server", "--port", "6379", "--bind", "127.0.0.1", "--save", "", "--dir", self.beside]
        self._started(words, self.network.client, 6379)

    def _store(self):
        words = [self.program, "up", "--port", "7000", "--emulate", "disk=200MiB/s,link=2Gb/s,rtt=0.2ms", os.path.join(self.beside, "store")]
        self._started(words, self.network.client, 7000)

    def argv(self, argv):
        """The command as this place starts it."""
        if not self.network:
            return list(argv)
        return self.network.client.argv(["unshare", "--mount", "sh", "-c", WITH_KEYS, self.keys, *argv])

    def shell(self, text, what, check=True):
        """What is done around the runs, in the command's directory."""
        done = subprocess.run(
            self.argv(["sh", "-c", text]), cwd=self.directory, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=RUN_TIMEOUT_S, check=False
        )
        if check and done.returncode:
            raise Broken(f"{what}: `{text}` ended with {done.returncode}: {shell.last_line(done.stderr + done.stdout)}")

    def restore(self):
        """Put the files and the cache back to what the command found."""
        if self.command.before:
            self.shell(self.command.before, "before each run")
        os.sync()
        for name in self.command.cold:
            path = os.path.join(self.directory, name)
            for one in files.files_under(path) if os.path.isdir(path) else [path]:
                files.make_cold(one)
        if self.command.drop_caches:
            shell.write("/proc/sys/vm/drop_caches", "3")
