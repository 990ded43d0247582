"""nginx: a directory over HTTP, for `curl`; a file is put there with PUT.

One worker, so that who serves is one process; `sendfile` as most installations have it. Below /slow/ the server sends no faster
than `SLOW_BYTES_PER_S`: a server that sleeps between buffers because it was told to.
"""

from testbed.servers.base import Server

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


class Nginx(Server):
    """A server of the files in `root`."""

    name = "nginx"
    log = "nginx.log"
    packages = {"nginx-light": "nginx", "curl": "curl"}

    def argv(self):
        user = "user root;" if self.is_roots else ""
        configuration = self.configure("nginx.conf", CONFIGURATION, slow=SLOW_BYTES_PER_S, user=user)
        return ["nginx", "-c", configuration, "-p", self.directory, "-e", self.inside(self.log)]

    def address(self, name):
        """The URL of a file of the root; a name that begins with `slow/` is sent slowly."""
        return f"http://{self.host.address}:{self.port}/{name}"
