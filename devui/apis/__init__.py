"""Both APIs, built at the first request for one."""
