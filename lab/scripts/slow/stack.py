"""stack.py PORT ...: several tiers behind one port, as people run them; it prints `ready` when the first answers.

    --front haproxy|nginx|socat     before the rest; may be given more than once, the outermost first
    --only redis|postgres|mariadb|sshd   that daemon alone, on PORT, as it makes itself one (in a session of its own)

Behind the fronts answers a small HTTP server in Python, with a thread for each connection: it does its work (--sleep, --compute, --sync,
--redis COMMAND, --sql STATEMENT) for each. What is started is ended at SIGTERM, by its own number.
"""

import argparse
import http.server
import os
import pwd
import shutil
import signal
import socket
import socketserver
import struct
import subprocess
import sys
import tempfile
import threading
import time

from work import Work, add_options

POSTGRES = "/usr/lib/postgresql"
HAPROXY = """defaults
  mode http
  timeout connect 5s
  timeout client 30s
  timeout server 30s
frontend in
  bind {on}:{port}
  default_backend out
backend out
  http-reuse always
{first}  server one 127.0.0.1:{behind}{limit}
"""
FIRST = """  retries 1
  option redispatch 1
  balance roundrobin
  timeout connect 1500ms
  server first {address}:{behind}
"""
NGINX = """daemon on; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.log; user root;
events {{ worker_connections 64; }}
http {{
  access_log off; client_body_temp_path {directory}/b; proxy_temp_path {directory}/p; fastcgi_temp_path {directory}/f;
  uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;
  upstream behind {{ server 127.0.0.1:{behind}; keepalive 4; }}
  server {{ listen 127.0.0.1:{port}; location / {{ proxy_pass http://behind; proxy_http_version 1.1; proxy_set_header Connection ""; }} }}
}}
"""
SSHD = """Port {port}
ListenAddress {address}
HostKey {directory}/host
PidFile {directory}/sshd.pid
AuthorizedKeysFile {directory}/user.pub
StrictModes no
UsePAM no
PermitRootLogin yes
Subsystem sftp /usr/lib/openssh/sftp-server
"""
SSH = """Host *
HostName {address}
Port {port}
User root
IdentityFile {directory}/user
UserKnownHostsFile /dev/null
StrictHostKeyChecking no
LogLevel ERROR
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("port", type=int)
    parser.add_argument("--front", action="append", default=[], choices=("haproxy", "nginx", "socat"))
    parser.add_argument("--only", choices=("redis", "postgres", "mariadb", "sshd"))
    parser.add_argument("--redis", metavar="COMMAND")
    parser.add_argument("--sql", metavar="STATEMENT")
    parser.add_argument("--before", metavar="STATEMENT", action="append", default=[], help="SQL that comes first")
    parser.add_argument("--data", metavar="DIR", help="where a daemon keeps its data")
    parser.add_argument("--address", default="127.0.0.1", help="where the daemon of --only listens besides (sshd: alone)")
    parser.add_argument("--first", metavar="ADDRESS", help="with haproxy: ask the server at this address before the other")
    parser.add_argument("--maxconn", type=int, help="with haproxy: so many requests at a time to the server")
    parser.add_argument("--forking", action="store_true", help="the HTTP server forks for each connection")
    parser.add_argument("--others", metavar="COMMAND", help="with redis: what another client asks all the time")
    parser.add_argument("--pusher", action="store_true", help="with redis: a program that pushes jobs, its work before each")
    parser.add_argument("--unix", metavar="PATH", help="where redis listens besides")
    parser.add_argument("--pgbench", action="store_true", help="with postgres: the tables that pgbench needs")
    parser.add_argument("--holder", metavar="STATEMENT", help="another client's, which commits when the work is done that begins with the file of --begin")
    parser.add_argument("--begin", metavar="PATH")
    parser.add_argument("--cold", action="store_true", help="with postgres: start anew, with nothing of the data in memory")
    parser.add_argument("--ssh-config", metavar="PATH", help="where clients find how to reach sshd")
    add_options(parser)
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    stack = Stack(options)
    try:
        stack.start()
        print("ready", flush=True)
        while True:
            signal.pause()
    finally:
        stack.stop()


class Stack:
    """What was started, and how each is ended."""

    def __init__(self, options):
        self.options = options
        self.directory = tempfile.mkdtemp(prefix="thalweg-stack-")
        os.chmod(self.directory, 0o755)
        self.ends = []

    def start(self):
        """From the last tier to the first."""
        if self.options.only:
            return getattr(self, self.options.only)(self.options.port)
        below = []
        if self.options.redis:
            below.append(Redis(self.redis(free_port()), self.options.redis))
        if self.options.sql:
            below.append(Postgres(self.postgres(free_port()), self.options.sql))
        port = self.options.port if not self.options.front else free_port()
        self.http(port, below)
        for place in range(len(self.options.front) - 1, -1, -1):
            behind, port = port, free_port() if place else self.options.port
            getattr(self, self.options.front[place])(port, behind)

    def stop(self):
        """End everything, the last started first."""
        for end in reversed(self.ends):
            try:
                end()
            except (OSError, subprocess.SubprocessError) as reason:
                print(reason, file=sys.stderr)
        shutil.rmtree(self.directory, ignore_errors=True)

    def http(self, port, below):
        """The tier of our own, in a process of its own."""
        pid = os.fork()
        if pid == 0:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            serve_http(port, Work(self.options), below, self.options.forking, "0.0.0.0" if self.options.first else "127.0.0.1")
            os._exit(0)
        self.ends.append(lambda: os.kill(pid, signal.SIGTERM))
        wait_for(port)

    def configured(self, name, text, **words):
        """A file of the stack's own."""
        path = os.path.join(self.directory, name)
        with open(path, "w") as out:
            out.write(text.format(directory=self.directory, **words))
        return path

    def by_pid_file(self, name):
        """End the daemon whose number is in this file."""

        def end():
            with open(os.path.join(self.directory, name)) as file:
                pid = int(file.read())
            os.kill(pid, signal.SIGTERM)
            for _ in range(200):
                if not os.path.exists(f"/proc/{pid}"):
                    return
                time.sleep(0.01)

        self.ends.append(end)

    def haproxy(self, port, behind):
        """haproxy, in the background as it puts itself."""
        address = self.options.first
        first = FIRST.format(address=address, behind=behind) if address else ""
        path = self.configured("haproxy.cfg", HAPROXY, port=port, behind=behind, first=first, on="" if address else "127.0.0.1", limit=f" maxconn {self.options.maxconn}" if self.options.maxconn else "")
        subprocess.run(["haproxy", "-D", "-f", path, "-p", f"{self.directory}/haproxy.pid"], check=True)
        self.by_pid_file("haproxy.pid")
        wait_for(port)

    def nginx(self, port, behind):
        """nginx as a proxy, a daemon with one worker."""
        path = self.configured("nginx.conf", NGINX, port=port, behind=behind)
        subprocess.run(["nginx", "-c", path, "-p", self.directory, "-e", f"{self.directory}/nginx.log"], check=True)
        self.by_pid_file("nginx.pid")
        wait_for(port)

    def socat(self, port, behind):
        """socat, which forks for each connection."""
        words = [f"TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork,nodelay", f"TCP:127.0.0.1:{behind},nodelay"]
        self.started(["socat", *words])
        wait_for(port)

    def started(self, argv):
        """A process in the foreground."""
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
        self.ends.append(lambda: (process.terminate(), process.wait(5)))

    def redis(self, port):
        """redis-server, which makes itself a daemon."""
        words = ["--port", str(port), "--bind", *sorted({"127.0.0.1", self.options.address}), "--protected-mode", "no", "--daemonize", "yes", "--save", "", "--dir"]
        words.append(self.options.data or self.directory)
        words += ["--pidfile", f"{self.directory}/redis.pid", "--enable-debug-command", "yes", "--logfile", f"{self.directory}/redis.log"]
        words += ["--appendonly", "yes", "--appendfsync", "always"] if self.options.data else []
        words += ["--unixsocket", self.options.unix] if self.options.unix else []
        if self.options.data:
            os.makedirs(self.options.data, exist_ok=True)
        subprocess.run(["redis-server", *words], check=True, stdout=subprocess.DEVNULL)
        self.by_pid_file("redis.pid")
        wait_for(port)
        if self.options.others:
            threading.Thread(target=again_and_again, args=(Redis(port, self.options.others),), daemon=True).start()
        if self.options.pusher:
            serve = os.path.join(os.path.dirname(__file__), "serve.py")
            work = ["--sleep", str(self.options.sleep), "--compute", str(self.options.compute)]
            self.started([sys.executable, serve, "push", str(port), *work])
        return port

    def postgres(self, port):
        """PostgreSQL: a process for each connection, below a postmaster in a session of its own."""
        programs = os.path.join(POSTGRES, max(os.listdir(POSTGRES)), "bin")
        data = os.path.join(self.options.data or self.directory, "data")
        os.makedirs(os.path.dirname(data), exist_ok=True)
        os.mkdir(data, 0o700)
        self.ends.append(lambda: shutil.rmtree(data))
        as_owner = {"cwd": data, "check": True, "stdout": subprocess.DEVNULL}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")
            os.chown(data, owner.pw_uid, owner.pw_gid)
            as_owner |= {"user": "postgres", "group": "postgres", "extra_groups": []}
        subprocess.run([f"{programs}/initdb", "-D", data, "-A", "trust", "-U", "postgres", "--no-sync"], **as_owner)
        with open(os.path.join(data, "pg_hba.conf"), "a") as rules:
            rules.write("host all all 10.0.0.0/8 trust\n")
        flags = f"-p {port} -k {data} -c listen_addresses=127.0.0.1,{self.options.address} -c autovacuum=off"
        subprocess.run([f"{programs}/pg_ctl", "-D", data, "-w", "-o", flags, "-l", f"{data}/log", "start"], **as_owner)
        self.ends.append(lambda: subprocess.run([f"{programs}/pg_ctl", "-D", data, "-m", "immediate", "stop"], **as_owner))
        self.ask_before(port, [f"{programs}/pg_ctl", "-D", data, "-w", "-o", flags, "-l", f"{data}/log"], as_owner, data)
        if self.options.pgbench:
            subprocess.run([f"{programs}/pgbench", "-q", "-i", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres", "postgres"], check=True, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
        if self.options.holder:
            self.hold(["psql", "-q", "-At", "-h", "127.0.0.1", "-p", str(port), "-U", "postgres"])
        return port

    def mariadb(self, port):
        """MariaDB, whose data are made once and stay in --data."""
        data = self.options.data
        own = ["--no-defaults", f"--datadir={data}", *(["--user=root"] if os.geteuid() == 0 else [])]
        if not os.path.isdir(data):
            made = ["mariadb-install-db", *own, "--auth-root-authentication-method=normal", "--skip-test-db"]
            subprocess.run(made, check=True, stdout=subprocess.DEVNULL)
        own += [f"--port={port}", f"--bind-address={self.everywhere()}", f"--socket={self.directory}/socket", f"--pid-file={self.directory}/pid"]
        self.started(["mariadbd", *own, "--innodb-flush-log-at-trx-commit=0", "--performance-schema=OFF", "--skip-name-resolve"])
        wait_for(port)
        client = ["mariadb", "--no-defaults", "-h", "127.0.0.1", "-P", str(port), "-u", "root", "-N", "-n"]
        for statement in self.options.before:
            subprocess.run([*client, "-e", statement], check=True)
        if self.options.holder:
            self.hold(client)

    def everywhere(self):
        """Where a daemon listens that takes one address: at all of them, where --address is to reach it besides."""
        return "127.0.0.1" if self.options.address == "127.0.0.1" else "0.0.0.0"

    def hold(self, client):
        """A client of the database's own, within a transaction until its work is done."""
        session = subprocess.Popen(client, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ends.append(lambda: (session.kill(), session.wait(5)))
        session.stdin.write(f"{self.options.holder};\nselect 'held';\n")
        session.stdin.flush()
        while session.stdout.readline().strip() != "held":
            pass
        threading.Thread(target=self.let_go, args=(session,), daemon=True).start()

    def let_go(self, session):
        """Commit, at last."""
        while not os.path.exists(self.options.begin):
            time.sleep(0.001)
        os.unlink(self.options.begin)
        Work(self.options)()
        session.stdin.write("commit;\n")
        session.stdin.flush()

    def ask_before(self, port, control, as_owner, data):
        """The statements that come before all others, and (--cold) nothing of what they wrote in memory."""
        for statement in self.options.before:
            session = Postgres(port, statement)
            if statement == self.options.before[-1] and not self.options.cold:
                threading.Thread(target=session, daemon=True).start()
            else:
                session()
        if not self.options.cold:
            return
        subprocess.run([*control, "stop"], **as_owner)
        os.sync()
        for parent, _, names in os.walk(data):
            for name in names:
                file = os.open(os.path.join(parent, name), os.O_RDONLY)
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(file)
        subprocess.run([*control, "start"], **as_owner)

    def sshd(self, port):
        """sshd, which makes itself a daemon, and forks twice for each session."""
        os.makedirs("/run/sshd", exist_ok=True)
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.directory}/{name}"], check=True)
        if "THALWEG_LAB_USER" in os.environ:
            # Whom the lab runs commands as has the key.
            os.chown(f"{self.directory}/user", int(os.environ["THALWEG_LAB_USER"]), -1)
        path = self.configured("sshd_config", SSHD, port=port, address=self.options.address)
        subprocess.run(["/usr/sbin/sshd", "-f", path], check=True)
        self.by_pid_file("sshd.pid")
        wait_for(port, self.options.address)
        shutil.copy(self.configured("ssh_config", SSH, port=port, address=self.options.address), self.options.ssh_config)


def again_and_again(one):
    """Ask until the server goes."""
    try:
        while True:
            one()
    except OSError:
        pass


class Redis:
    """One command, asked again and again on one connection."""

    def __init__(self, port, command):
        words = command.split() if not command.startswith("EVAL ") else ["EVAL", command[5:], "0"]
        self.question = f"*{len(words)}\r\n".encode() + b"".join(f"${len(word)}\r\n{word}\r\n".encode() for word in words)
        self.connection = socket.create_connection(("127.0.0.1", port))

    def __call__(self):
        self.connection.sendall(self.question)
        if not self.connection.recv(4096):
            raise OSError("redis has gone")


class Postgres:
    """One statement, asked again and again on one connection."""

    def __init__(self, port, statement):
        self.statement = statement
        self.connection = socket.create_connection(("127.0.0.1", port))
        words = b"user\0postgres\0database\0postgres\0\0"
        self.connection.sendall(struct.pack("!ii", len(words) + 8, 196608) + words)
        self.until_ready()

    def __call__(self):
        text = self.statement.encode() + b"\0"
        self.connection.sendall(b"Q" + struct.pack("!i", len(text) + 4) + text)
        self.until_ready()

    def until_ready(self):
        """Read messages until the server waits for the next question."""
        while True:
            head = self.connection.recv(5, socket.MSG_WAITALL)
            if len(head) < 5:
                raise OSError("postgres has gone")
            rest = struct.unpack("!i", head[1:])[0] - 4
            body = self.connection.recv(rest, socket.MSG_WAITALL) if rest else b""
            if head[:1] == b"E":
                raise OSError(body.decode(errors="replace"))
            if head[:1] == b"Z":
                return


def serve_http(port, work, below, forking, address):
    """Answer requests one after another."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self):
            work()
            for one in below:
                one()
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nok\n")

        def log_message(self, *_):
            pass

    class Forking(socketserver.ForkingMixIn, http.server.HTTPServer):
        pass

    http.server.ThreadingHTTPServer.daemon_threads = True
    (Forking if forking else http.server.ThreadingHTTPServer)((address, port), Handler).serve_forever()


def free_port():
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(port, address="127.0.0.1"):
    """Until somebody listens there."""
    for _ in range(500):
        try:
            socket.create_connection((address, port)).close()
            return
        except OSError:
            time.sleep(0.01)
    raise OSError(f"nobody listens on {port}")


if __name__ == "__main__":
    main()
