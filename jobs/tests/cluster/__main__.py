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
        print(f"export SLURM_CONF={cluster.env['SLURM_CONF']}\nssh -F {server.config} cluster sinfo", flush=True)
        signal.pause()
    except KeyboardInterrupt:
        print("stopping")
    finally:
        server.stop()
        cluster.stop()


if __name__ == "__main__":
    main()
