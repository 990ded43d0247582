"""Other people's transfer servers, started for a comparison and taken down again.

Each server is one module with one class, a context manager: entering it starts the server over a directory and waits until it
accepts connections; leaving it ends the processes it started, by their own process groups, and nothing else. What a machine
cannot run raises `NotRun` with one sentence that says why. Adding a server is one module and one line in `SERVERS`.
"""

from testbed.servers.gridftp import GridFtp
from testbed.servers.juicefs import JuiceFs
from testbed.servers.nfs_ganesha import NfsGanesha
from testbed.servers.nginx import Nginx
from testbed.servers.rsync import Rsync
from testbed.servers.sshfs import Sshfs
from testbed.servers.xrootd import Xrootd

SERVERS = {"gridftp": GridFtp, "juicefs": JuiceFs, "nfs": NfsGanesha, "nginx": Nginx, "rsync": Rsync, "sshfs": Sshfs, "xrootd": Xrootd}
