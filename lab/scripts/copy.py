"""copy.py FROM TO [SECONDS]: copy in pieces of 1 MiB; sleep that long after each."""

import sys
import time

PIECE_BYTES = 1 << 20

source, sink = sys.argv[1:3]
pause_s = float(sys.argv[3]) if len(sys.argv) > 3 else 0.0
with open(source, "rb", buffering=0) as reading, open(sink, "wb", buffering=0) as writing:
    while piece := reading.read(PIECE_BYTES):
        writing.write(piece)
        if pause_s:
            time.sleep(pause_s)
