package vsphere

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"

	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// recommendsNoHost reports whether a cluster refuses to recommend a host at all:
// its DRS is off or not licensed. vCenter reports the first as InvalidState, which
// has other causes too, so the cluster's configuration decides.
func (a *account) recommendsNoHost(ctx context.Context, cluster types.ManagedObjectReference, err error) (bool, error) {
	name := faultName(fault(err))
	switch {
	case strings.Contains(name, "License"), name == "NotSupported", name == "RestrictedVersion", name == "MethodDisabled":
		return true, nil
	case err != nil && name != "InvalidState":
		return false, nil
	}
	var c mo.ClusterComputeResource
	collector := property.DefaultCollector(a.v.Client)
	if err := collector.RetrieveOne(ctx, cluster, []string{"configurationEx"}, &c); err != nil {
		return false, err
	}
	config, ok := c.ConfigurationEx.(*types.ClusterConfigInfoEx)
	return ok && config.DrsConfig.Enabled != nil && !*config.DrsConfig.Enabled, nil
}

// placeOnHost chooses a host of the cluster that runs VMs and has the class's
// network and datastore; it is the class's own host if that names one. One token
// chooses the same as long as the hosts that can run the VM stay the same.
func (a *account) placeOnHost(ctx context.Context, s *spec, r cloud.CreateRequest, cluster types.ManagedObjectReference,
	at *types.VirtualMachineRelocateSpec,
) error {
	net, err := a.network(ctx, s)
	if err != nil {
		return err
	}
	store, err := a.inventory.find(ctx, s, "datastore", s.Datastore)
	if err != nil {
		return err
	}
	hosts, err := a.hosts(ctx, cluster)
	if err != nil {
		return err
	}
	hosts = slices.DeleteFunc(hosts, func(h mo.HostSystem) bool {
		return at.Host != nil && h.Self != *at.Host ||
			!slices.Contains(h.Network, net.Reference()) || !slices.Contains(h.Datastore, store)
	})
	if len(hosts) == 0 {
		return s.noSuchHost()
	}
	hosts = slices.DeleteFunc(hosts, func(h mo.HostSystem) bool { return !runsVMs(h) })
	if len(hosts) == 0 {
		return cloud.Errorf(cloud.Exhausted, opCreate, "NoHost",
			"every host of cluster %q that has the network and the datastore is disconnected, off or in maintenance mode",
			s.ComputeCluster)
	}
	chosen := hosts[draw(r.Token, len(hosts))]
	at.Host, at.Datastore = &chosen.Self, &store
	return nil
}

// noSuchHost is the error where no host of a cluster without DRS serves the class.
func (s *spec) noSuchHost() error {
	return cloud.Worst(opCreate, []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec.computeCluster",
		Message: fmt.Sprintf("names cluster %q, whose DRS is off or not licensed and of whose hosts none has network %q "+
			"and datastore %q; connect a host to them, turn on DRS, or name another place",
			s.ComputeCluster, s.Network, s.Datastore),
	}}, cloud.BlocksCreate)
}

// hosts returns the hosts of a cluster, by reference.
func (a *account) hosts(ctx context.Context, cluster types.ManagedObjectReference) ([]mo.HostSystem, error) {
	collector := property.DefaultCollector(a.v.Client)
	var c mo.ClusterComputeResource
	if err := collector.RetrieveOne(ctx, cluster, []string{"host"}, &c); err != nil || len(c.Host) == 0 {
		return nil, err
	}
	var hosts []mo.HostSystem
	err := collector.Retrieve(ctx, c.Host, []string{
		"runtime.connectionState", "runtime.inMaintenanceMode", "runtime.powerState", "datastore", "network",
	}, &hosts)
	slices.SortFunc(hosts, func(a, b mo.HostSystem) int { return cmp.Compare(a.Self.Value, b.Self.Value) })
	return hosts, err
}

// runsVMs reports whether a host takes VMs now.
func runsVMs(h mo.HostSystem) bool {
	at := h.Runtime
	return at.ConnectionState == types.HostSystemConnectionStateConnected && !at.InMaintenanceMode &&
		at.PowerState != types.HostSystemPowerStateStandBy && at.PowerState != types.HostSystemPowerStatePoweredOff
}

// draw returns a number below n that follows from the token.
func draw(token string, n int) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(token))     // never fails
	return int(h.Sum32() % uint32(n)) //nolint:gosec // n is a count of hosts or zones
}
