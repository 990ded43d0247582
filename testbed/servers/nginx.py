"""nginx: a directory over HTTP, for `curl`; a file is put there with PUT.

One worker, so that who serves is one process; `sendfile` as most installations have it. Below /slow/ the server sends no faster
than `SLOW_BYTES_PER_S`: a server that sleeps between buffers because it was told to.
"""

import os

from servers.process import FileServer, free_port, install

PACKAGES = {"nginx-light": "nginx", "curl": "curl"}
SLOW_BYTES_PER_S = 128 << 20

CONFIGURATION = """daemon off; worker_processes 1; pid {directory}/nginx.pid; error_log {directory}/nginx.log; {user}
events {{ worker_connections 256; }}
http {{
    access_log off; default_type application/octet-stream; sendfile on; sendfile_max_chunk 1m; client_max_body_size 0;
    client_body_temp_path {directory}/nginx-body; proxy_temp_path {directory}/nginx-proxy; fastcgi_temp_path {directory}/nginx-fastcgi;
    uwsgi_temp_path {directory}/nginx-uwsgi; scgi_temp_path {directory}/nginx-scgi;
    server {{
        listen {address}:{port};
        root {root};
        location / {{ dav_methods PUT; }}
        location /slow/ {{ alias {root}/; limit_rate {slow}; }}
    }}
}}
"""


class Nginx(FileServer):
    """A server of the files in `root` (or `directory`/files); `directory` keeps its configuration and log."""

    name = "nginx"

    def __enter__(self):
        install(PACKAGES)
        self.port = free_port()
        os.makedirs(self.root, exist_ok=True)
        os.makedirs(self.directory, exist_ok=True)
        configuration = os.path.join(self.directory, "nginx.conf")
        with open(configuration, "w") as out:
            out.write(
                CONFIGURATION.format(
                    directory=self.directory,
                    root=self.root,
                    address=self.host.address,
                    port=self.port,
                    slow=SLOW_BYTES_PER_S,
                    user="user root;" if os.geteuid() == 0 else "",
                )
            )
        log = os.path.join(self.directory, "nginx.log")
        argv = ["nginx", "-c", configuration, "-p", self.directory, "-e", log]
        return self._run(argv, log)

    def address(self, name):
        """The URL of a file of the root; a name that begins with `slow/` is sent slowly."""
        return f"http://{self.host.address}:{self.port}/{name}"
