"""Sessions, artifacts and memory that another service owns, and their copies here."""
