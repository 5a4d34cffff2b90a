"""The gc worker: deletes the chunks that wait in the gc queue once their grace is over, under one lease a shard."""
