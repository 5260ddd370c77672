"""What SLURM's refusals mean: one table from its own words to what may be concluded.

Its words are those of slurm_errno.c and of the commands themselves; they are stable over versions, exit codes are not.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from record.errors import AdapterError


class Refusal(StrEnum):
    PERMANENT = "permanent"  # nothing was submitted, and the same again would be refused again
    BUSY = "busy"  # nothing was submitted, and later it may be
    AMBIGUOUS = "ambiguous"  # it may have been submitted all the same: look before another try
    SIGN_IN = "sign_in"  # a person has to open the connection


@dataclass(frozen=True)
class Rule:
    pattern: re.Pattern[str]
    refusal: Refusal


def _rules(refusal: Refusal, *patterns: str) -> list[Rule]:
    return [Rule(re.compile(pattern, re.IGNORECASE), refusal) for pattern in patterns]


# The first that fits counts. What fits none is ambiguous.
RULES: list[Rule] = [
    *_rules(
        Refusal.AMBIGUOUS,
        r"socket timed out",
        r"unable to contact slurm controller",
        r"zero bytes were transmitted or received",
        r"transport endpoint is not connected",
        r"connection (reset|refused|timed out)",
        r"communication (connection failure|shutdown failure)",
        r"message (send|receive) failure",
        r"unexpected message received",
        r"temporarily unable to accept job",
        r"i/o error writing script/environment to file",
        r"slurm backup controller in standby mode",
        r"unspecified error",
    ),
    *_rules(
        Refusal.BUSY,
        r"violates accounting/qos policy",
        r"rate limit exceeded",
        r"resource temporarily unavailable",
        r"too many (open files|requests)",
        r"(authentication|munge|credential).*(fail|error|not running|expired)",
        r"unable to establish configuration source",
        r"requested partition configuration not available now",
        r"can't be reached now",
        r"problem talking to database",
        r"out of memory|cannot allocate memory",
        r"no space left on device|disk quota exceeded",
        r"job submission is disabled|slurmctld is (starting|shutting)",
    ),
    *_rules(
        Refusal.PERMANENT,
        r"invalid partition",
        r"invalid account",
        r"invalid qos",
        r"requested node configuration is not available",
        r"invalid generic resource",
        r"invalid (trackable resource|tres)",
        r"memory (specification|required) .*not",
        r"invalid feature specification",
        r"invalid --?[a-z-]+ specification",
        r"invalid (job array|license|wckey|reservation|gres|cluster|constraint|dependency|user id|group id|time|node)",
        r"requested (time limit|reservation) is invalid",
        r"requested reservation (is invalid|not usable)",
        r"unrecognized option|invalid option|requires an argument|unable to process configuration",
        r"more processors requested than permitted",
        r"node count specification invalid",
        r"job dependency problem",
        r"batch script is empty|does not look like a batch script|batch script contains dos line breaks",
        r"(access|permission)[ /]*(permission)? denied",
        r"user's group not permitted",
        r"pathname of a file.* too long",
        r"job script size exceeds",
        r"unable to open (file|batch file)",
        r"(command|file) not found|no such file or directory",
        r"duplicate job id|job size specification",
        r"(partition|account|qos) is not (permitted|allowed)",
        r"cannot be (run|executed) as root|disable.*root",
    ),
]


class SchedulerError(AdapterError):
    """SLURM refused or could not be asked. `refusal` says what that means for what was asked."""

    def __init__(self, message: str, refusal: Refusal) -> None:
        super().__init__(message, transient=refusal != Refusal.PERMANENT, extra={"refusal": str(refusal)})
        self.refusal = refusal


def refusal_of(text: str) -> Refusal:
    """What SLURM's words mean for a submission. Words that nobody knows are ambiguous: then a look-up decides."""
    return next((rule.refusal for rule in RULES if rule.pattern.search(text)), Refusal.AMBIGUOUS)


def own_words(text: str) -> str:
    """What a command complained of, in its own words, without its name before each line: at most 500 characters."""
    lines = [re.sub(r"^(s[a-z]+: )?((error|fatal): )?", "", line).strip() for line in text.splitlines()]
    said = list(dict.fromkeys(line for line in lines if line and not line.startswith('Try "')))
    return "; ".join(said)[:500]


def refusal_error(what: str, stderr: str, returncode: int) -> SchedulerError:
    """The error that a failed command comes to; `what` begins its sentence (`sbatch`, `squeue on lab`)."""
    said = own_words(stderr) or f"exit code {returncode}, without a word"
    return SchedulerError(f"{what}: {said}.".replace("..", "."), refusal_of(stderr))
