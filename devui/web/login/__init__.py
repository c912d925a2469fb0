"""The login: one password for people and one token for programs, required everywhere once it is set up."""
