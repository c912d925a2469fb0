#!/usr/bin/env python
"""Entry point of DevUI from a checkout; `devui` is the same once installed."""

from devui.__main__ import main

if __name__ == "__main__":
    main()
