"""GridFTP and NeST, 2004."""
