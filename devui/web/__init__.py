"""Request handling: guards, login, body limits, errors, the frame of pages, ADK's own front end."""
