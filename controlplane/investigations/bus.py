"""What is told when something was committed: to the hub and the worker of this process, and, by the package ``buses``,
to those of other processes.

It only wakes: a lost or late message costs a moment, never an event, because everybody reads the log and polls.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

from controlplane.core.subscribers import Subscribers, Topic
from controlplane.investigations.envelope import LoggedEvent

#: Told each batch of events (of one thread, in order) that is committed: here on the committing thread, elsewhere on
#: the thread of the bus.
events: Final[Topic[[Sequence[LoggedEvent]]]] = Topic()
#: Told when there may be a run to claim or one to look after; workers poll each second all the same.
work: Final[Topic[[]]] = Topic()
#: Told that another process has written a thread up to a ``seq``, where the event itself was too large to carry.
heads: Final[Subscribers[[UUID, int]]] = Subscribers()
#: Told when something may have been missed: the bus was out of reach and is back.
missed: Final[Subscribers[[]]] = Subscribers()
