"""The demo: a site on this machine with one run of the bundled pipeline, and its unattended check."""
