// Package openstack runs a real OpenStack on this machine for tests: Keystone,
// Glance, Placement, Neutron and Nova as Debian packages them, each as one process
// on a port that was free, over a MariaDB of their own. Nova's hypervisor is the
// fake one that comes with it, Neutron binds ports and assigns floating IPs without
// agents, so that no packet flows, and Cinder, which that set lacks, is played by this
// process.
//
// A process that runs tests starts one for itself, or uses that of another, which
// has called Share: make test has one for all packages.
//
// Nothing of it outlives the process that started it, however that ends.
package openstack
