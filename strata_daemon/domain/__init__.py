"""Pure rules of what Strata stores: shards, manifests, back-references, ages. No I/O, no threads, no clocks."""
