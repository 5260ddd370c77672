"""Points at which tests make a process die or stall; see record.faults."""

from record.faults import point as point
