"""What watches over the workers and tells the world: supervisor, watchdog, heartbeat, snapshot.

Tells the truth as last seen; it does not decide who leads, and cannot end a thread that hangs.
"""
