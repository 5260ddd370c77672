"""A question of one's own to an agent: whether it can be asked at all, and what it costs."""

from jobs.agents.models import Agent, Ask
from jobs.agents.prompts import Template
from jobs.agents.services import Question, ask_agent
from record.errors import BadInput
from record.services import Author

TRIAL = Template(
    key="trial",
    version=1,
    question="Somebody tries whether you can be asked. Answer the question that stands in the data below.",
    properties={"answer": {"type": "string", "minLength": 1, "maxLength": 4000}},
    required=("answer",),
)


def try_agent(*, agent: Agent, author: Author, question: str) -> Ask:
    """Ask one question about nothing; the ask. BadInput where there is none, and what `ask_agent` raises."""
    if not question.strip():
        raise BadInput("Write a question.")
    questions = [Question(TRIAL, {"The question": question})]
    (ask,) = ask_agent(agent_id=agent.pk, author=author, subject=agent.subject(), questions=questions)
    return ask
