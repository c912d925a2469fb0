"""Live pages: the bell, and the sockets that send what is new."""
