"""`python -m ring`: the command line. Nothing else lives here."""

from ring.cli import main

main(prog_name="scripts/cassandra")
