"""The login: one password for people, one token for programs, in front of everything once it is set up."""
