"""Problems of sessions: detectors, storage, pages."""
