"""Every kind of event, in one table: what it is called, and whether people are told of it.

Notable events are what a person would want to hear of; the rest is the mechanical log, which may be pruned.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    label: str
    notable: bool = False


KINDS: dict[str, Kind] = {
    "job.plan": Kind("job planned"),
    "job.claim": Kind("job claimed for submission"),
    "job.reclaim": Kind("submission taken over from a dead or stalled submitter"),
    "job.enqueue": Kind("job queued"),
    "job.start": Kind("job running"),
    "job.lose_sight": Kind("job's whereabouts unknown"),
    "job.lose": Kind("job lost: held until somebody can say what became of it", notable=True),
    "job.requeue": Kind("job put back into the queue by the cluster"),
    "job.puzzle": Kind("job in a state at the cluster that is not known", notable=True),
    "job.find": Kind("lost job seen again", notable=True),
    "job.settle": Kind("end of a lost job declared by a person", notable=True),
    "job.succeed": Kind("job succeeded"),
    "job.fail": Kind("job failed"),
    "job.cancel": Kind("job cancelled"),
    "job.request_cancel": Kind("cancelling of a job asked for"),
    "job.time_out": Kind("job ran out of time"),
    "job.run_out_of_memory": Kind("job ran out of memory"),
    "job.fail_node": Kind("job's node failed"),
    "job.preempt": Kind("job preempted"),
    "run.create": Kind("run created", notable=True),
    "run.pause": Kind("run paused", notable=True),
    "run.resume": Kind("run resumed", notable=True),
    "run.cancel": Kind("run cancelled", notable=True),
    "run.finish": Kind("run finished", notable=True),
    "run.reopen": Kind("run reopened", notable=True),
    "run.archive": Kind("run archived"),
    "run.set_conf": Kind("run's settings changed"),
    "phase.make_ready": Kind("phase ready"),
    "phase.start": Kind("phase started"),
    "phase.verify": Kind("phase's outputs being checked"),
    "phase.reach_checkpoint": Kind("phase waits at its gate"),
    "phase.pass_checkpoint": Kind("phase's gate passed"),
    "phase.ask_next": Kind("phase waits at its next gate"),
    "phase.finish": Kind("phase done"),
    "phase.fail": Kind("phase failed", notable=True),
    "phase.retry": Kind("phase tried again"),
    "phase.skip": Kind("phase skipped", notable=True),
    "phase.reset": Kind("phase to be run again"),
    "phase.stop": Kind("phase stopped"),
    "phase.mark_stale": Kind("phase's results became stale"),
    "series.exclude": Kind("tilt series excluded", notable=True),
    "series.include": Kind("tilt series brought back", notable=True),
    "series.discover": Kind("tilt series found"),
    "gate.request": Kind("gate asked for"),
    "gate.open": Kind("gate waits for a person", notable=True),
    "gate.fail_preparing": Kind("gate's evidence could not be prepared", notable=True),
    "gate.retry_preparing": Kind("gate's evidence is prepared again"),
    "gate.ballot": Kind("answer to a gate"),
    "gate.decide": Kind("gate decided", notable=True),
    "gate.begin_applying": Kind("gate's decision being applied"),
    "gate.apply": Kind("gate's decision applied"),
    "gate.fail_applying": Kind("gate's decision could not be applied", notable=True),
    "gate.retry_applying": Kind("gate's decision is applied again"),
    "gate.time_out": Kind("gate timed out", notable=True),
    "gate.escalate": Kind("gate escalated", notable=True),
    "gate.delegate": Kind("gate delegated", notable=True),
    "gate.withdraw": Kind("gate withdrawn"),
    "gate.clean": Kind("gate's evidence cleared away"),
    "gate.reopen": Kind("gate reopened", notable=True),
    "target.check": Kind("target checked"),
    "cluster.hung": Kind("worker cluster hung; started anew", notable=True),
    "cluster.start": Kind("worker cluster started"),
    "installation.drain": Kind("nothing new is started, for maintenance", notable=True),
    "installation.resume": Kind("work goes on after maintenance", notable=True),
}
