"""docs/results/LS-BENCH.md, from what is kept of the study of listings."""

import os

from bench.harness.studies import DOCS
from testbed.results import write_text

PAGE = os.path.join(DOCS, "LS-BENCH.md")

PREFACE = """# What a listing costs

**Asked.** `ls -l` of a striped directory: what does each file cost, what does each further datafile cost, with each mechanism, over round trips of 0 to 10 ms? Bars
come from the arithmetic: a hundred times as fast as one file at a time over 1 ms, at most twice the larger of bytes over bandwidth and work over processors.

**Found.** {kept}. With 32 datafiles a file and 1 ms, sizes proved by the metadata service list 3,100 times as fast as one file at a time, sizes fetched ahead 330
times.

**Missed, and why.** The cost of a datafile grows slightly from 16 to 32 of them with sizes fetched ahead. `thalweg ls -lU` is twice, not three times, as fast as
NFS READDIRPLUS from memory: on one machine of two processors no client is faster than its server. Eight workers that create files in one directory through
the mount are no faster than one, because the kernel holds the directory's lock during each creation.

**When.** {measured}, `bench/ls -- --files 100000` (root), on one machine: the servers in a network namespace, the client in others beyond links of known round trips.
`thalweg bench ls` alone does the same without links, and with a stage file between real hosts:

```
thalweg bench ls --short                                # under a minute: whether it works
thalweg bench ls --only grid --files 100000             # this machine alone
bench/ls --round-trips 0,1 --only grid items            # with links
```

## The question

`ls -l` of a striped directory asks for a name, its attributes, and for the size of each of its datafiles. A program that asks for one
item at a time pays a round trip for each: the service answers in some microseconds, and the wire takes a thousand.
A file must cost its bytes over the link, or the processors' work at both ends, whichever is more. The rest is waiting.

| | what a file costs | what is still waited for |
|---|---|---|
| one file at a time (`none`) | two round trips: its attributes, then all its datafiles' sizes at once | the wire, twice for each file |
| attributes ahead (`statahead`) | one round trip: pages of names bring attributes before they are asked for | the wire, once for each file |
| sizes ahead too (`glimpse-ahead`) | no round trip; a few bytes and some work for each datafile: one message asks for many files | the window while it grows, and the last answer |
| sizes from the service (`metadata`) | as little as its attributes: a file that nobody writes has a size that the service can prove | the same |
| `thalweg ls -lU` | the last one, and starting a program, connecting, writing lines | |
| `ls -Ul` on the mount | the last one, and the kernel: several crossings for each file | |

## How it is measured

A store has one directory, and every file has one byte on each of its datafiles (*never written*: files never opened for
writing). All methods take turns on it, repetition by repetition, in changing order, and it is removed before the next. Methods that list one
file at a time list some files from the first on and are compared by the time per file; all others list the whole directory. Every
entry's size is compared with the file's, and the number of entries with the number created: a wrong listing fails its point.
Client and servers are processes of their own, so each one's processor time is known; bytes are those of packets, as the client's devices count them.
The mount is made anew for each run. NFS-Ganesha serves the same number of files from the same disk to the lab's asynchronous client.

**The straight line.** The time per file over its number of datafiles is split into what a file costs at all (the intercept, at 0
datafiles) and what each datafile adds (the slope), for each way by itself: a comparison with the synchronous case alone would hide what
a datafile still costs. Least squares in relative errors, intervals by drawing repetitions again. *4 → 8* and *16 → 32* say whether the slope grows.

**The bound.** The larger of bytes over the link (what one stream carries there) and processor time over the number of processors. Client, servers and, where the link
is the packet relay, the link share this machine's processors, so all three are in it; on separate machines it would be lower.

"""

AFTER = """
## The remaining cost

- **The window's growth.** A walk begins with a page of 32 names, asks for the second when the first has arrived, and then for up to four pages in flight, of
  a window that grows eightfold while its reader waits: four or five round trips at its start, for any number of files. This is the
  whole difference between links up to 1 ms, and the reason that small directories differ by more.
- **At 10 ms, requests in flight.** A window of 8,192 entries, and four questions of 1,024 datafiles to a server, are less than the path holds in ten milliseconds:
  the walk waits for the wire again, for most of the time with 32 datafiles. Both are bounds of memory and of fairness (`--window` changes the first).
- **The first listing.** After a directory's creation its servers have not cached it, and the first question for sizes pays for reading
  their disks: the column *first*.
- **Processors.** The rest of a listing is work: names and attributes out of the database, messages, checksums, and lines of text.
- **Datafiles.** With sizes ahead a datafile costs a few bytes in a question and an answer, and one look-up in the server's table. With
  sizes from the service it costs nothing, until the file is written.
- **Other clients.** The service reads directories in turns, on half of its processors: a writer beside 100 listings waits for a turn's
  length and not for a hundred threads. Longer turns would list a quarter more, and keep writers waiting twice as long.
- **Peers.** NFS-Ganesha answers READDIRPLUS from its memory, a mebibyte at a time, in 2 µs a file; a third of that is what is left here, most of
  it the service's work on rows of its database. On one machine of two processors no client can be faster than its server.
- **The file system below.** Copies are measured first, on a file system that rests. When ext4 makes a file it passes over every inode that was
  removed in the last minutes; after millions were, that is seven tenths of the time of a copy (a profile of the kernel said so; `explain` could only say that the
  servers' processors were busy), and our command was four times as fast as the stock one instead of sixteen.
- **The kernel.** Through a mount each file is looked up by the kernel and asked for by `ls`; prefetching removes waiting, not crossings.

## mdtest's patterns

The tests have `mdtest`'s names. Each worker is a thread; through the library it has connections of its own, new ones for each test, so nothing is cached
from its creation. All workers of a run on the mount share one mount, whose kernel has their files cached.

| | `mdtest` | what each worker does |
|---|---|---|
| tree creation, tree removal | | makes, and removes, the directory it works in: its own, or one for all, made by the first worker (one name: no more than a latency) |
| directory creation, stat, removal | `-D` | makes directories, asks for their attributes, removes them |
| file creation, stat, removal | `-F` | creates and closes files, asks for their attributes, removes them |
| *own* and *one for all* | with and without `-u` | works in a directory of its own, or all work in one |
| bytes: file creation, file read | `-w`, `-E -e` | writes so many bytes into each file when it makes it; opens, reads and closes it. 3,901 are `mdtest-hard`'s of IO500 |
| stride | `-N` | asks for the files of the worker one further on, reads those of the second, and removes those of the third: on the mount through a second mount of the same machine, another client, whose kernel knows nothing of them |

*1 in a request* is create and close, stat, unlink, each waiting for the one before; on the mount `open`, `stat`, `unlink`, and `mkdir`, `stat`, `rmdir`. *64 in a request* are the client library's requests
of many. 64 workers make as many names together as 8, so that the directory is as large. Not made: deeper trees (`-z`, `-b`), shuffled `stat` (`-R`), renamed directories.
"""


def write(studies, path=None):
    """The page, beside the studies' pictures unless a path is given; its path."""
    line, names = studies.get("ls")
    # What most is to be seen comes first.
    order = ["ls-mechanisms-1-ms", "ls-slope-1-ms", "ls-slope-no-link", "ls-round-trips", "ls-items"]
    names.sort(key=lambda name: (order.index(name) if name in order else len(order), name))
    shown = "".join(f"![{name.replace('-', ' ')}](ls/{name}.svg)\n\n" for name in names)
    promised, rest = split(line["text"])
    page = path or os.path.join(studies.docs, os.path.basename(PAGE))
    kept, missed = line["text"].count("| kept |"), line["text"].count("| **missed** |")
    preface = PREFACE.replace("{kept}", f"{kept} of {kept + missed} bars are kept").replace("{measured}", line["measured"][:10])
    write_text(page, preface + promised + "## Pictures\n\n" + shown + rest.rstrip() + "\n" + AFTER)
    return page


def split(measured):
    """What was promised, and the rest."""
    head, found, rest = measured.partition("## From where\n")
    return (head, found + rest) if found else ("", measured)
