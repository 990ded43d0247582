"""Transfers over a link: `server ADDRESS PROFILE` says its port and serves, `client ADDRESS PORT PROFILE` transfers."""

import socket
import sys
import threading
import time

MI = 1 << 20
# Connections, what each sends, how often, the pause after each, in seconds.
PROFILES = {
    "pulses": (1, 10 * MI, 10, 0.017),
    "steady": (1, MI, 40, 0),
    "several": (4, MI, 10, 0),
    "slow-sender": (1, MI // 4, 30, 0.015),
    "slow-receiver": (1, MI, 8, 0),
}
ASKED = 200
REPLY = 64 << 10


def take(connection, size):
    while size > 0:
        came = connection.recv(min(size, MI))
        if not came:
            return False
        size -= len(came)
    return True


def serve(connection, profile):
    if profile == "replies":
        while take(connection, 100):
            connection.sendall(b"r" * REPLY)
    elif profile == "slow-receiver":
        while connection.recv(REPLY):
            time.sleep(0.005)
    else:
        while connection.recv(MI):
            pass
    connection.close()


def server(address, profile):
    listener = socket.create_server((address, 0))
    print(listener.getsockname()[1], flush=True)
    threads = []
    for _ in range(PROFILES.get(profile, (1,))[0]):
        thread = threading.Thread(target=serve, args=(listener.accept()[0], profile))
        thread.start()
        threads.append(thread)
    for thread in threads:
        thread.join()


def send(address, port, profile):
    connection = socket.create_connection((address, port))
    if profile == "replies":
        for _ in range(ASKED):
            connection.sendall(b"q" * 100)
            take(connection, REPLY)
    else:
        _, size, times, pause = PROFILES[profile]
        piece = b"s" * size
        for _ in range(times):
            connection.sendall(piece)
            time.sleep(pause)
    connection.shutdown(socket.SHUT_WR)
    connection.recv(1)


def client(address, port, profile):
    threads = [threading.Thread(target=send, args=(address, int(port), profile)) for _ in range(PROFILES.get(profile, (1,))[0])]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


{"server": server, "client": client}[sys.argv[1]](*sys.argv[2:])
