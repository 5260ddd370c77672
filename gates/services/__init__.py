"""The only writers of gates: by subject, one file each."""

from gates.services.adding import Addition, add_evidence, check_adding
from gates.services.advising import ask_at_gate
from gates.services.answering import Answer, answer_gate
from gates.services.applying import apply_gate, retry_applying
from gates.services.asking import reopen_gate, request_gate, withdraw_gate
from gates.services.clocks import escalate_gate, extend_deadlines, time_out_gate
from gates.services.delegating import delegate_gate
from gates.services.preparing import prepare_gate, retry_preparing
from gates.services.refusals import may_answer
from gates.services.statements import Preview, last_decision, preview_answers
from gates.services.suggesting import suggest_answer

__all__ = [
    "Addition",
    "Answer",
    "Preview",
    "add_evidence",
    "answer_gate",
    "apply_gate",
    "ask_at_gate",
    "check_adding",
    "delegate_gate",
    "escalate_gate",
    "extend_deadlines",
    "last_decision",
    "may_answer",
    "prepare_gate",
    "preview_answers",
    "reopen_gate",
    "request_gate",
    "retry_applying",
    "retry_preparing",
    "suggest_answer",
    "time_out_gate",
    "withdraw_gate",
]
