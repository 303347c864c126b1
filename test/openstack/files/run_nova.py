"""run_nova.py: all of Nova in one process, so that its messages need no broker.

NOVA_HOSTS lists the computes, HOST=DRIVER separated by commas.
"""
import nova.monkey_patch  # noqa: has to be first
import os
import sys

import os_vif
from oslo_log import log
from oslo_service import service as launching

import nova.conf
from nova import config
from nova import objects
from nova import service
from nova.compute import rpcapi as compute
from nova.conductor import rpcapi as conductor
from nova.scheduler import rpcapi as scheduler

CONF = nova.conf.CONF
config.parse_args(sys.argv)
log.setup(CONF, 'nova')
objects.register_all()
os_vif.initialize()
launcher = launching.ServiceLauncher(CONF)
for name, topic in (('nova-conductor', conductor.RPC_TOPIC), ('nova-scheduler', scheduler.RPC_TOPIC)):
    launcher.launch_service(service.Service.create(binary=name, topic=topic))
for host in os.environ['NOVA_HOSTS'].split(','):
    name, _, driver = host.partition('=')
    CONF.set_override('compute_driver', driver)
    launcher.launch_service(service.Service.create(host=name, binary='nova-compute', topic=compute.RPC_TOPIC))
CONF.clear_override('compute_driver')
launcher.launch_service(service.WSGIService('osapi_compute'))
launcher.wait()
