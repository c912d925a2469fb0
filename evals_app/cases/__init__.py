"""Cases as people write them: forms, recordings of sessions, uploads, versions."""
