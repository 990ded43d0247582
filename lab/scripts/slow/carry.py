"""carry.py KIND PORT: somebody's tunnel between the lab's two hosts; it prints `ready` when it carries.

    ssh PORT             ssh -L: PORT on the client's loopback is the server's FAR_PORT
    socat PORT           socat at the client, which passes bytes on to the server's FAR_PORT
    openvpn PORT         openvpn between both (its own is PORT): the server is 10.99.0.2, and so is its FAR_PORT

    slirp PORT           slirp4netns, between a network of its own at the client's (of the process in --inner) and everybody

At FAR_PORT is --far: files of a directory over HTTP, or redis. It is started on the server's host, and has the client's host beside it.
"""

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from stack import SSH, SSHD

FAR_PORT = 18080
NEAR, FAR = "10.99.0.1", "10.99.0.2"
# How often, and for how long, to try whether it carries.
LOOK_S, LOOKS = 0.05, 200


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("ssh", "socat", "openvpn", "slirp"))
    parser.add_argument("port", type=int)
    parser.add_argument("--address", required=True, help="the server's")
    parser.add_argument("--far", required=True, metavar="redis|DIRECTORY")
    parser.add_argument("--inner", metavar="PATH", help="where slirp4netns's inner process is named")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    directory, started = tempfile.mkdtemp(prefix="thalweg-carry-"), []
    try:
        carrying = Carrier(options, directory, started)
        carrying.far()
        wait_for(FAR_PORT)
        getattr(carrying, options.kind)()
        print("ready", flush=True)
        signal.pause()
    finally:
        for process in reversed(started):
            process.terminate()
            process.wait(5)
        shutil.rmtree(directory, ignore_errors=True)


class Carrier:
    """What is started at both ends."""

    def __init__(self, options, directory, started):
        self.options, self.directory, self.started = options, directory, started
        own = subprocess.run(["ip", "netns", "identify", str(os.getpid())], check=True, capture_output=True, text=True).stdout.strip()
        self.at_client = ["nsenter", f"--net=/run/netns/{own.removesuffix('server')}client"]
        # Whom the lab runs commands as has ssh or socat at the client's end.
        self.user = os.environ.get("THALWEG_LAB_USER")
        self.own_at_client = [*self.at_client, *(["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups"] if self.user else [])]
        os.chmod(directory, 0o755)

    def start(self, *argv, at=()):
        """A process in the foreground."""
        self.started.append(subprocess.Popen([*at, *argv], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL))

    def far(self):
        """Who is asked."""
        if self.options.far == "redis":
            self.start("redis-server", "--port", str(FAR_PORT), "--bind", "0.0.0.0", "--protected-mode", "no", "--save", "")
        else:
            self.start(sys.executable, "-m", "http.server", str(FAR_PORT), "--directory", self.options.far)

    def ssh(self):
        """sshd here, ssh there."""
        for name in ("host", "user"):
            subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{self.directory}/{name}"], check=True)
        if self.user:
            os.chown(f"{self.directory}/user", int(self.user), -1)
        os.makedirs("/run/sshd", exist_ok=True)
        words = {"directory": self.directory, "port": 2222, "address": self.options.address}
        for name, text in (("sshd_config", SSHD), ("ssh_config", SSH)):
            with open(f"{self.directory}/{name}", "w") as out:
                out.write(text.format(**words))
        self.start("/usr/sbin/sshd", "-D", "-f", f"{self.directory}/sshd_config")
        wait_for(2222, self.options.address)
        forward = f"127.0.0.1:{self.options.port}:127.0.0.1:{FAR_PORT}"
        self.start("ssh", "-F", f"{self.directory}/ssh_config", "-N", "-L", forward, "there", at=self.own_at_client)
        self.until_carried("127.0.0.1", self.options.port)

    def socat(self):
        """socat there."""
        words = [f"TCP-LISTEN:{self.options.port},bind=127.0.0.1,reuseaddr,fork,nodelay", f"TCP:{self.options.address}:{FAR_PORT},nodelay"]
        self.start("socat", *words, at=self.own_at_client)
        self.until_carried("127.0.0.1", self.options.port)

    def openvpn(self):
        """openvpn at both ends, with a key of theirs."""
        key, port = f"{self.directory}/key", str(self.options.port)
        subprocess.run(["openvpn", "--genkey", "secret", key], check=True, stdout=subprocess.DEVNULL)
        common = ["openvpn", "--dev", "tun9", "--dev-type", "tun", "--secret", key, "--cipher", "AES-256-CBC", "--verb", "0", "--port", port]
        self.start(*common, "--ifconfig", FAR, NEAR)
        self.start(*common, "--ifconfig", NEAR, FAR, "--remote", self.options.address, at=self.at_client)
        self.until_carried(FAR, FAR_PORT)

    def slirp(self):
        """slirp4netns there."""
        self.start("unshare", "--net", "sleep", "1000", at=self.at_client)
        inner = self.started[-1].pid
        here = os.stat("/proc/self/ns/net").st_ino
        outer = os.stat(f"/run/netns/{self.at_client[1].rpartition('/')[2]}").st_ino
        while os.stat(f"/proc/{inner}/ns/net").st_ino in (here, outer):
            time.sleep(LOOK_S)
        self.start("slirp4netns", "--configure", "--mtu=1500", "--disable-dns", str(inner), "tap0", at=self.at_client)
        with open(self.options.inner, "w") as out:
            out.write(str(inner))
        self.at_client = ["nsenter", f"--net=/proc/{inner}/ns/net"]
        self.until_carried(self.options.address, FAR_PORT)

    def until_carried(self, address, port):
        """Until a connection at the client's is answered."""
        probe = f"import socket; socket.create_connection(('{address}', {port}), 1).close()"
        for _ in range(LOOKS):
            if subprocess.run([*self.at_client, sys.executable, "-c", probe], capture_output=True, check=False).returncode == 0:
                return
            time.sleep(LOOK_S)
        raise OSError(f"{self.options.kind} carries nothing to {address}:{port}")


def wait_for(port, address="127.0.0.1"):
    """Until somebody listens there."""
    for _ in range(LOOKS):
        try:
            socket.create_connection((address, port)).close()
            return
        except OSError:
            time.sleep(LOOK_S)
    raise OSError(f"nobody listens at {address}:{port}")


if __name__ == "__main__":
    main()
