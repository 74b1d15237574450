"""rocprof output: CSV, JSON and database of rocprofv3, CSV tables and the JSON trace of rocprof v1."""
