"""When and where assets run: partitions, jobs, sensors, resources, the instance."""
