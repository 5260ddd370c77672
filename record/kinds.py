"""Every kind of event, in one table: what it is called, and whether people are told of it.

Notable events are what a person would want to hear of; the rest is the mechanical log, which may be pruned. Each
notable kind belongs to one topic: what a lab's channels subscribe to, and a room at Matrix.
"""

from dataclasses import dataclass

LOG, RESEARCH, RESULTS = "conductor-log", "research", "experiment-results"
WORKERS, ESCALATIONS = "worker-updates", "escalations"
TOPICS: dict[str, str] = {
    LOG: "runs, phases and gates: what happens",
    ESCALATIONS: "what waits too long, was lost, or needs somebody now",
    WORKERS: "jobs and workers: what became of them",
    RESEARCH: "hypotheses and their reviews",
    RESULTS: "results of experiments",
}


@dataclass(frozen=True)
class Kind:
    label: str
    notable: bool = False
    topic: str = LOG


KINDS: dict[str, Kind] = {
    "job.plan": Kind("job planned"),
    "job.claim": Kind("job claimed for submission"),
    "job.reclaim": Kind("submission taken over from a dead or stalled submitter"),
    "job.enqueue": Kind("job queued"),
    "job.start": Kind("job running"),
    "job.lose_sight": Kind("job's whereabouts unknown"),
    "job.lose": Kind("job lost: held until somebody can say what became of it", notable=True, topic=ESCALATIONS),
    "job.requeue": Kind("job put back into the queue by the cluster"),
    "job.puzzle": Kind("job in a state at the cluster that is not known", notable=True, topic=ESCALATIONS),
    "job.find": Kind("lost job seen again", notable=True, topic=WORKERS),
    "job.settle": Kind("end of a lost job declared by a person", notable=True, topic=WORKERS),
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
    "series.move": Kind("files of tilt series moved aside or back"),
    "series.include": Kind("tilt series brought back", notable=True),
    "series.discover": Kind("tilt series found"),
    "gate.ask_agent": Kind("agent asked at a gate"),
    "gate.request": Kind("gate asked for"),
    "gate.open": Kind("gate waits for a person", notable=True),
    "gate.fail_preparing": Kind("gate's evidence could not be prepared", notable=True, topic=ESCALATIONS),
    "gate.retry_preparing": Kind("gate's evidence is prepared again"),
    "gate.add_evidence": Kind("evidence added to a gate"),
    "gate.ballot": Kind("answer to a gate"),
    "gate.suggest": Kind("an agent's suggestion at a gate"),
    "gate.decide": Kind("gate decided", notable=True),
    "gate.begin_applying": Kind("gate's decision being applied"),
    "gate.apply": Kind("gate's decision applied"),
    "gate.fail_applying": Kind("gate's decision could not be applied", notable=True, topic=ESCALATIONS),
    "gate.retry_applying": Kind("gate's decision is applied again"),
    "gate.time_out": Kind("gate timed out", notable=True, topic=ESCALATIONS),
    "gate.escalate": Kind("gate escalated", notable=True, topic=ESCALATIONS),
    "gate.delegate": Kind("gate delegated", notable=True),
    "gate.withdraw": Kind("gate withdrawn"),
    "gate.clean": Kind("gate's evidence cleared away"),
    "gate.reopen": Kind("gate reopened", notable=True),
    "gate.remind": Kind("somebody reminded of a gate that waits"),
    "ask.begin": Kind("question put to an agent"),
    "ask.answer": Kind("agent answered"),
    "ask.fail": Kind("agent failed to answer"),
    "ask.block": Kind("agent says that it can't answer"),
    "ask.break_down": Kind("agent could not be asked"),
    "ask.limit": Kind("agent's provider takes no more for now"),
    "ask.refuse": Kind("question or answer forbidden by a provider's content policy"),
    "ask.time_out": Kind("agent gave no answer in time"),
    "ask.lose": Kind("agent's answer can't be read"),
    "ask.withdraw": Kind("question to an agent withdrawn"),
    "agent.switch": Kind("agent switched on or off"),
    "member.change": Kind("roles of a member changed", notable=True),
    "member.invite": Kind("invitation into the lab"),
    "member.kept": Kind("last of a role kept though no group gives it", notable=True),
    "account.close": Kind("account closed", notable=True),
    "account.open": Kind("account opened again", notable=True),
    "account.password": Kind("password set by a link"),
    "account.token": Kind("agent's token made or revoked"),
    "target.check": Kind("target checked"),
    "cluster.hung": Kind("worker cluster hung; started anew", notable=True, topic=ESCALATIONS),
    "cluster.start": Kind("worker cluster started"),
    "installation.drain": Kind("nothing new is started, for maintenance", notable=True),
    "installation.resume": Kind("work goes on after maintenance", notable=True),
    "notice.test": Kind("channel tried"),
    "notice.give_up": Kind("notice given up"),
    "notice.retry": Kind("notice sent again"),
    "channel.change": Kind("channel of notices changed"),
}
