"""The study of NFS clients with `rpcstat`, 2001."""
