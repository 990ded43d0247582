"""again.py KIND ...: programs that read or fetch what they have had already; with --keep they do so once.

    reads FILE N             looks at N records of 4 KiB in a file, and for each seeks back and reads all of it
    ranges URL N             fetches N records of 4 KiB out of a file over HTTP, and for each the index before them (the first 256 KiB)
    lookups URL N            asks for N small answers over HTTP, of which only ten differ
"""

import argparse
import http.client
import urllib.parse

BLOCK_BYTES = 256 << 10
INDEX_BYTES = 256 << 10
RECORD_BYTES = 4096
ANSWERS = 10


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=sorted(KINDS))
    parser.add_argument("place")
    parser.add_argument("times", type=int)
    parser.add_argument("--keep", action="store_true")
    options = parser.parse_args()
    KINDS[options.kind](options)


def reads(options):
    """Records far behind, each looked for from the beginning."""
    with open(options.place, "rb", buffering=0) as file:
        kept = file.read() if options.keep else b""
        for number in range(options.times):
            if options.keep:
                assert kept[-(number + 1) * RECORD_BYTES :][:RECORD_BYTES]
                continue
            file.seek(0)
            while file.read(BLOCK_BYTES):
                pass


class Web:
    """One server, on one connection."""

    def __init__(self, url):
        self.parts = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(self.parts.netloc)

    def range(self, begin, length):
        """A part of the file."""
        self.connection.request("GET", self.parts.path, headers={"Range": f"bytes={begin}-{begin + length - 1}"})
        with self.connection.getresponse() as response:
            assert response.status == 206
            return response.read()


def ranges(options):
    """Records, and where they are."""
    web = Web(options.place)
    index = None
    for number in range(options.times):
        if index is None or not options.keep:
            index = web.range(0, INDEX_BYTES)
        assert web.range(INDEX_BYTES + number * RECORD_BYTES, RECORD_BYTES)


def lookups(options):
    """Answers that were there before."""
    web = Web(options.place)
    kept = {}
    for number in range(options.times):
        which = number % ANSWERS
        if which not in kept or not options.keep:
            kept[which] = web.range(which * RECORD_BYTES, RECORD_BYTES)


KINDS = {"lookups": lookups, "ranges": ranges, "reads": reads}

if __name__ == "__main__":
    main()
