"""Election: who may work under which lease, and until when.

Promises that our side never works under a lease that it cannot prove to hold. Does not promise that a store behind a
stalled coordinator forgets a request, nor that a runner can be killed (design.md section 4).
"""
