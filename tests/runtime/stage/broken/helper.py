def key() -> str:
    return {}["API_KEY"]


KEY = key()
