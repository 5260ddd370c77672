"""Start a SLURM and an SSH server to try things on, until Ctrl-C: `python -m jobs.tests.cluster [--accounting]`."""

import signal
import sys

from jobs.tests.cluster.slurm import SlurmCluster
from jobs.tests.cluster.sshd import SshServer, ordinary_user


def main() -> None:
    cluster = SlurmCluster(accounting="--accounting" in sys.argv[1:], users=(ordinary_user(),))
    server = SshServer(env=cluster.env)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster.start()
        server.start()
        print(_told(cluster, server), flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("stopping")
    finally:
        server.stop()
        cluster.stop()


def _told(cluster: SlurmCluster, server: SshServer) -> str:
    """What to write into the admin, and how to try it by hand."""
    return (
        f"A SLURM runs. As a target: conf path {cluster.env['SLURM_CONF']}, and either the shell on this machine,\n"
        f"or over SSH with ssh host cluster, ssh config {server.config} and a root below {server.home}.\n"
        f"By hand: export SLURM_CONF={cluster.env['SLURM_CONF']}; sinfo\n"
        f"         ssh -F {server.config} cluster sinfo\n"
        "Ctrl-C stops it."
    )


if __name__ == "__main__":
    main()
