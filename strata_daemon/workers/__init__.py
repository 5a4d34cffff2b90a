"""The workers, each a folder, and the contract that they and other people's workers meet."""
