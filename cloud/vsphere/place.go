package vsphere

import (
	"cmp"
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/property"
	"github.com/vmware/govmomi/vim25/methods"
	"github.com/vmware/govmomi/vim25/mo"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// placing is what is to be cloned, to where in the inventory, and the note that
// keeps what was chosen.
type placing struct {
	template configured
	folder   types.ManagedObjectReference
	note     *note
}

// place decides where the clone runs and which storage policy its disks have.
func (a *account) place(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
	spec *types.VirtualMachineCloneSpec,
) error {
	policy, err := a.storagePolicy(ctx, s)
	if err != nil {
		return err
	}
	spec.Location.Profile = profile(policy)
	if err := a.locate(ctx, s, r, p, spec); err != nil || policy == "" {
		return err
	}
	store := *spec.Location.Datastore
	if suits, err := a.serving(ctx, s, []types.ManagedObjectReference{store}); err != nil || len(suits) == 0 {
		return cmp.Or(err, wrong(opCreate, "storagePolicy", fmt.Sprintf(
			"names %q, which datastore %s of the VM does not satisfy; name a datastore that does, or another policy",
			s.StoragePolicy, store.Value)))
	}
	for _, d := range p.template.config.Hardware.Device {
		if disk, ok := d.(*types.VirtualDisk); ok {
			spec.Location.Disk = append(spec.Location.Disk, types.VirtualMachineRelocateSpecDiskLocator{
				DiskId: disk.Key, Datastore: store, DiskMoveType: spec.Location.DiskMoveType, Profile: profile(policy),
			})
		}
	}
	return nil
}

// locate decides where the clone runs and where its disks are, as MCM's driver
// does: a host goes before a resource pool and that before a cluster; a
// datastore cluster goes before the cluster's recommendation and that before a
// datastore.
func (a *account) locate(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
	spec *types.VirtualMachineCloneSpec,
) error {
	pool, host, err := a.pool(ctx, s)
	if err != nil {
		return err
	}
	spec.Location.Pool, spec.Location.Host, spec.Location.Folder = &pool, host, &p.folder
	if s.DatastoreCluster != "" || s.ComputeCluster != "" {
		return a.choose(ctx, s, r, p, spec)
	}
	datastore, err := a.inventory.find(ctx, s, "datastore", s.Datastore)
	spec.Location.Datastore = &datastore
	return err
}

// choose asks vCenter for a place, and takes the one in the note instead if there is
// one.
func (a *account) choose(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
	spec *types.VirtualMachineCloneSpec,
) error {
	at := &spec.Location
	if p.note.Datastore != "" {
		at.Datastore = &types.ManagedObjectReference{Type: "Datastore", Value: p.note.Datastore}
		if p.note.Host != "" {
			at.Host = &types.ManagedObjectReference{Type: "HostSystem", Value: p.note.Host}
		}
		return nil
	}
	place := a.placeInCluster
	if s.DatastoreCluster != "" {
		place = a.placeInPod
	}
	if err := place(ctx, s, r, p, spec); err != nil {
		return err
	}
	p.note.Datastore = at.Datastore.Value
	if at.Host != nil {
		p.note.Host = at.Host.Value
	}
	return nil
}

// pool returns the resource pool of the class, and its host if it names one.
func (a *account) pool(ctx context.Context, s *spec) (pool types.ManagedObjectReference,
	host *types.ManagedObjectReference, err error,
) {
	switch {
	case s.HostSystem != "":
		ref, err := a.inventory.find(ctx, s, "hostSystem", s.HostSystem)
		if err != nil {
			return pool, nil, err
		}
		of, err := a.inventory.lookup(ctx, "pool", ref.Value, func(ctx context.Context) (object.Reference, error) {
			return object.NewHostSystem(a.v.Client, ref).ResourcePool(ctx)
		})
		return of, &ref, err
	case s.ResourcePool != "":
		pool, err = a.inventory.find(ctx, s, "resourcePool", s.ResourcePool)
		return pool, nil, err
	}
	ref, err := a.inventory.find(ctx, s, "computeCluster", s.ComputeCluster)
	if err != nil {
		return pool, nil, err
	}
	pool, err = a.inventory.lookup(ctx, "pool", ref.Value, func(ctx context.Context) (object.Reference, error) {
		return object.NewClusterComputeResource(a.v.Client, ref).ResourcePool(ctx)
	})
	return pool, nil, err
}

// errNowhere is the error if vCenter recommends no place. The message is vCenter's
// and may be empty.
func errNowhere(what, message string) error {
	return cloud.Errorf(cloud.Exhausted, opCreate, "NoRecommendation", "vCenter recommends no %s for the VM%s", what,
		colon(message))
}

// placeInCluster takes the first recommendation of the cluster. A cluster that does
// not recommend, because its DRS is off or not licensed, gets the VM onto one of its
// hosts.
func (a *account) placeInCluster(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
	spec *types.VirtualMachineCloneSpec,
) error {
	ref, err := a.inventory.find(ctx, s, "computeCluster", s.ComputeCluster)
	if err != nil {
		return err
	}
	res, refused := methods.PlaceVm(ctx, a.v, &types.PlaceVm{This: ref, PlacementSpec: types.PlacementSpec{
		PlacementType: string(types.PlacementSpecPlacementTypeClone), Vm: &p.template.ref, CloneSpec: spec,
		CloneName: escape(r.Name),
	}})
	if refused == nil {
		if place := recommended(res.Returnval.Recommendations); place != nil {
			spec.Location.Datastore = place.Datastore
			spec.Location.Host = cmp.Or(spec.Location.Host, place.Host)
			return nil
		}
	} else if fault(refused) == nil {
		return refused
	}
	none, err := a.recommendsNoHost(ctx, ref, refused)
	switch {
	case err != nil:
		return err
	case none:
		return a.placeOnHost(ctx, s, r, ref, &spec.Location)
	case refused != nil:
		return refused
	}
	return errNowhere("host and datastore", drsMessage(res.Returnval.DrsFault))
}

// recommended returns the first recommendation that names a datastore, or nil.
func recommended(all []types.ClusterRecommendation) *types.VirtualMachineRelocateSpec {
	for _, r := range all {
		for _, action := range r.Action {
			if place, ok := action.(*types.PlacementAction); ok && place.RelocateSpec != nil &&
				place.RelocateSpec.Datastore != nil {
				return place.RelocateSpec
			}
		}
	}
	return nil
}

// drsMessage is what vCenter says about why it recommends nothing.
func drsMessage(f *types.ClusterDrsFaults) string {
	if f == nil {
		return ""
	}
	texts := []string{f.Reason}
	for _, of := range f.FaultsByVm {
		for _, fault := range of.GetClusterDrsFaultsFaultsByVm().Fault {
			texts = append(texts, fault.LocalizedMessage)
			texts = append(texts, messages(fault.Fault)...)
		}
	}
	return joined(texts)
}

// placeInPod takes the first recommendation for the datastore cluster. One that
// does not recommend, because its storage DRS is off, gets the VM onto the
// datastore with the most space.
func (a *account) placeInPod(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
	spec *types.VirtualMachineCloneSpec,
) error {
	pod, err := a.inventory.find(ctx, s, "datastoreCluster", s.DatastoreCluster)
	if err != nil {
		return err
	}
	res, err := methods.RecommendDatastores(ctx, a.v, &types.RecommendDatastores{
		This: *a.v.ServiceContent.StorageResourceManager,
		StorageSpec: types.StoragePlacementSpec{
			Type: string(types.StoragePlacementSpecPlacementTypeClone), Vm: &p.template.ref, CloneName: escape(r.Name),
			CloneSpec: spec,
			Folder:    &p.folder, ResourcePool: spec.Location.Pool, Host: spec.Location.Host,
			PodSelectionSpec: types.StorageDrsPodSelectionSpec{
				StoragePod: &pod, InitialVmConfig: []types.VmPodConfigForPlacement{{StoragePod: pod}},
			},
		},
	})
	if err != nil && !recommendsNothing(err) {
		return err
	}
	if res != nil {
		for _, recommended := range res.Returnval.Recommendations {
			for _, action := range recommended.Action {
				if place, ok := action.(*types.StoragePlacementAction); ok {
					spec.Location.Datastore = &place.Destination
					return nil
				}
			}
		}
	}
	return a.freest(ctx, s, pod, spec)
}

// recommendsNothing reports whether a datastore cluster does not recommend at all.
func recommendsNothing(err error) bool {
	switch f := fault(err).(type) {
	case types.NotSupported, *types.NotSupported:
		return true
	case types.InvalidArgument:
		return strings.HasSuffix(f.InvalidProperty, "storagePod")
	case *types.InvalidArgument:
		return strings.HasSuffix(f.InvalidProperty, "storagePod")
	}
	return false
}

// freest takes the datastore of a pod that has the most space.
func (a *account) freest(ctx context.Context, s *spec, pod types.ManagedObjectReference,
	spec *types.VirtualMachineCloneSpec,
) error {
	var p mo.StoragePod
	collector := property.DefaultCollector(a.v.Client)
	if err := collector.RetrieveOne(ctx, pod, []string{"childEntity"}, &p); err != nil {
		return err
	}
	suits, err := a.serving(ctx, s, p.ChildEntity)
	switch {
	case err != nil:
		return err
	case len(suits) == 0:
		return errNowhere("datastore", "")
	}
	var stores []mo.Datastore
	if err := collector.Retrieve(ctx, suits, []string{"summary"}, &stores); err != nil {
		return err
	}
	most := int64(0)
	for _, d := range stores {
		if takesVMs(d.Summary) && d.Summary.FreeSpace > most {
			most = d.Summary.FreeSpace
			spec.Location.Datastore = &d.Self
		}
	}
	if spec.Location.Datastore == nil {
		return errNowhere("datastore", "")
	}
	return nil
}

// takesVMs reports whether a datastore takes VMs now.
func takesVMs(d types.DatastoreSummary) bool {
	return d.Accessible && (d.MaintenanceMode == "" ||
		d.MaintenanceMode == string(types.DatastoreSummaryMaintenanceModeStateNormal))
}

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
	nets, err := a.networks(ctx, s)
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
	lacksNetwork := func(h mo.HostSystem) bool {
		return slices.ContainsFunc(nets, func(n object.NetworkReference) bool {
			return !slices.Contains(h.Network, n.Reference())
		})
	}
	hosts = slices.DeleteFunc(hosts, func(h mo.HostSystem) bool {
		return at.Host != nil && h.Self != *at.Host || lacksNetwork(h) || !slices.Contains(h.Datastore, store)
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
	var networks []string
	for _, n := range s.nics() {
		networks = append(networks, strconv.Quote(n.Network))
	}
	return wrong(opCreate, "computeCluster", fmt.Sprintf(
		"names cluster %q, whose DRS is off or not licensed and of whose hosts none has network %s and datastore %q; "+
			"connect a host to them, turn on DRS, or name another place",
		s.ComputeCluster, strings.Join(networks, " and "), s.Datastore))
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
