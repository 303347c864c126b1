// Package openstack runs a real OpenStack on this machine for tests: Keystone,
// Glance, Placement, Neutron and Nova as Debian packages them, each as one process
// on a port that was free, over a MariaDB of their own. Nova's hypervisor is the
// fake one that comes with it, Neutron binds ports and assigns floating IPs without
// agents, so that no packet flows, and Cinder, which that set lacks, is played by this
// process.
//
// With the option Hypervisor there is one compute more, whose servers are guests of this
// machine in a network of their own: libvirt and QEMU run in namespaces that end with
// the rig.
//
// A process that runs tests starts one for itself, or uses that of another, which
// has called Share: make test-real has one for all packages.
//
// Nothing of it outlives the process that started it, however that ends.
package openstack
