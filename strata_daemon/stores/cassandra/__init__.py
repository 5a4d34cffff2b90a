"""Metadata and leases in a Cassandra keyspace that is shared with Strata gateways. The only place with its driver."""
