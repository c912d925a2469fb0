"""The sign-in page, limits of passwords, and the end of requests and sockets whose login ends."""
