"""DevUI's own problem detectors, a module per concern. The registry loads every module of this package."""
