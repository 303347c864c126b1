"""run_neutron.py: Neutron's server, which loads collections as its releases since 2024.2 do.

Before, its models ask for subqueries, which SQLAlchemy makes again for each request
(bug 2067770 of Neutron). What is loaded is the same.
"""
import sys

from neutron.cmd import eventlet  # noqa: has to be first
from sqlalchemy.orm import relationships

init = relationships.RelationshipProperty.do_init


def init_with_selectin(self):
    if self.lazy == 'subquery':  # this stays: neutron-lib looks for it
        self.strategy_key = (('lazy', 'selectin'),)
    init(self)


relationships.RelationshipProperty.do_init = init_with_selectin

from neutron.cmd.eventlet import server  # noqa: its models have to come later

sys.exit(server.main())
