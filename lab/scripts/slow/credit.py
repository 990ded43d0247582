"""credit.py KIND ...: sends blocks to a receiver that grants a credit for each that it has; the sender has so many at first.

    serve ADDRESS PORT       receives, from one sender after the other; it prints `ready` when it can be asked
    send ADDRESS PORT        sends --blocks of --size; no more than --credit are on their way (1: stop and wait)
"""

import argparse
import socket


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("send", "serve"))
    parser.add_argument("address")
    parser.add_argument("port", type=int)
    parser.add_argument("--blocks", type=int, default=100)
    parser.add_argument("--size", type=int, default=16 << 10)
    parser.add_argument("--credit", type=int, default=1)
    options = parser.parse_args()
    {"send": send, "serve": serve}[options.kind](options)


def serve(options):
    """A credit for each block, when all of it is here."""
    with socket.create_server((options.address, options.port)) as server:
        print("ready", flush=True)
        while True:
            client = server.accept()[0]
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            while client.recv(options.size, socket.MSG_WAITALL):
                client.sendall(b"+")
            client.close()


def send(options):
    """Blocks, as far as there is credit."""
    with socket.create_connection((options.address, options.port)) as server:
        server.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        credit, granted = options.credit, 0
        for _ in range(options.blocks):
            while credit == 0:
                got = len(server.recv(1024))
                credit, granted = credit + got, granted + got
            server.sendall(bytes(options.size))
            credit -= 1
        while granted < options.blocks:
            granted += len(server.recv(1024))


if __name__ == "__main__":
    main()
