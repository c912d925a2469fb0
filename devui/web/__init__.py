"""The path of a request: guards, login, admission of bodies, errors, the frame of pages, ADK's own front end."""
