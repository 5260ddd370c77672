"""What asking an agent can be refused with."""

from record.errors import ConductorError, InvalidTransition


class AgentOff(InvalidTransition):
    """The agent is switched off."""

    code = "agent_off"


class AskedAlready(InvalidTransition):
    """There is nothing left to ask it here: it has answered, or is being asked."""

    code = "asked_already"


class OutputLost(ConductorError):
    """What an agent wrote is not in the store any more, or not what it was."""

    status = 410
    code = "output_lost"
