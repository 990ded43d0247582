"""Other people's transfer servers, started on loopback for a comparison and taken down again.

Each server is one module with one class, a context manager: entering it starts the server over a directory and waits until it
accepts connections; leaving it ends the processes it started, by their own process groups, and nothing else. What a machine
cannot run raises `Unavailable` with one sentence that says why. Adding a server is one module and one line in `SERVERS`.
"""

from servers.gridftp import GridFtp
from servers.nfs_ganesha import NfsGanesha
from servers.nginx import Nginx
from servers.rsync import Rsync
from servers.sshfs import Sshfs
from servers.xrootd import Xrootd

SERVERS = {"gridftp": GridFtp, "nfs": NfsGanesha, "nginx": Nginx, "rsync": Rsync, "sshfs": Sshfs, "xrootd": Xrootd}
