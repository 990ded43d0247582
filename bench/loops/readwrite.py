"""The same in Python, with lseek as file objects do it:   readwrite.py SOURCE SINK TIMES"""

import os
import sys

BLOCK_BYTES = 4096
BLOCKS = 256


def main(source_path, sink_path, times):
    source = os.open(source_path, os.O_RDONLY)
    sink = os.open(sink_path, os.O_WRONLY | os.O_CREAT, 0o600)
    for i in range(int(times)):
        if i % BLOCKS == 0:
            os.lseek(source, 0, os.SEEK_SET)
            os.lseek(sink, 0, os.SEEK_SET)
        os.write(sink, os.read(source, BLOCK_BYTES))


main(*sys.argv[1:])
