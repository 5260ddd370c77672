"""The door for programs: where its addresses are, who may come in, what it reads, how it refuses."""
