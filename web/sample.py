"""The investigation that a fresh installation shows: the sample incident that ships with the runtimes."""

from controlplane.access.actors import actor_for_user
from controlplane.access.bootstrap import first_owner
from controlplane.core.actor import Channel, Role, system_actor
from controlplane.core.permissions import Action
from controlplane.investigations.selectors import threads_visible
from controlplane.investigations.starting import investigation_start
from controlplane.orgs.selectors import teams_for
from controlplane.runtimes.samples import load_sample


def sample_start() -> bool:
    """Start the sample investigation in the first team of the first owner's organization, unless it has one.

    Returns whether one was started; it is flagged as a sample, and the whole team sees it.
    """
    owner = first_owner()
    if owner is None:
        return False
    person = actor_for_user(owner, channel=Channel.CLI)
    team = teams_for(person, Action.RUN_CREATE).first()
    if team is None or threads_visible(person).filter(sample=True).exists():
        return False
    root_id = next(grant.node_id for grant in person.grants if grant.role is Role.OWNER)
    # The installation starts it, not the owner: its name would stand beside a question it never asked.
    installation = system_actor(
        name="sample", organization_id=team.organization_id, root_id=root_id, channel=Channel.CLI
    )
    sample = load_sample()
    investigation_start(
        actor=installation,
        team=team,
        prompt=sample.prompt,
        alert=sample.alert,
        evidence=sample.snapshot,
        visibility="team",
        sample=True,
    )
    return True
