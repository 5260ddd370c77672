"""The only writers of gates: by subject, one file each."""

from gates.services.answering import Answer, answer_gate
from gates.services.applying import apply_gate, retry_applying
from gates.services.asking import reopen_gate, request_gate, withdraw_gate
from gates.services.clocks import escalate_gate, extend_deadlines, time_out_gate
from gates.services.delegating import delegate_gate
from gates.services.preparing import prepare_gate, retry_preparing
from gates.services.refusals import may_answer
from gates.services.statements import last_decision
from gates.services.suggesting import suggest_answer

__all__ = [
    "Answer",
    "answer_gate",
    "apply_gate",
    "delegate_gate",
    "escalate_gate",
    "extend_deadlines",
    "last_decision",
    "may_answer",
    "prepare_gate",
    "reopen_gate",
    "request_gate",
    "retry_applying",
    "retry_preparing",
    "suggest_answer",
    "time_out_gate",
    "withdraw_gate",
]
