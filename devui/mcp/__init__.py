"""DevUI as a server of the Model Context Protocol (MCP): tools for coding agents, over stdio and at /mcp.

Tools call DevUI's own API in this process, so roles, quotas and the audit log are those of any program. Only `server`
and the transports import the SDK (`pip install 'devui[mcp]'`).
"""
