package vsphere

import (
	"cmp"
	"context"
	"strings"

	"github.com/vmware/govmomi/find"
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
	template, folder types.ManagedObjectReference
	note             *note
}

// place decides where the clone runs and where its disks are, as MCM's driver
// does: a host goes before a resource pool and that before a cluster; a
// datastore cluster goes before the cluster's recommendation and that before a
// datastore.
func (a *account) place(ctx context.Context, s *spec, r cloud.CreateRequest, p placing,
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
		of, err := a.inventory.lookup("pool of "+ref.Value, func() (object.Reference, error) {
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
	pool, err = a.inventory.lookup("pool of "+ref.Value, func() (object.Reference, error) {
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
		PlacementType: string(types.PlacementSpecPlacementTypeClone), Vm: &p.template, CloneSpec: spec,
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
			Type: string(types.StoragePlacementSpecPlacementTypeClone), Vm: &p.template, CloneName: escape(r.Name),
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
	return a.freest(ctx, pod, spec)
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
func (a *account) freest(ctx context.Context, pod types.ManagedObjectReference,
	spec *types.VirtualMachineCloneSpec,
) error {
	var p mo.StoragePod
	collector := property.DefaultCollector(a.v.Client)
	if err := collector.RetrieveOne(ctx, pod, []string{"childEntity"}, &p); err != nil {
		return err
	}
	if len(p.ChildEntity) == 0 {
		return errNowhere("datastore", "")
	}
	var stores []mo.Datastore
	if err := collector.Retrieve(ctx, p.ChildEntity, []string{"summary"}, &stores); err != nil {
		return err
	}
	most := int64(0)
	for _, d := range stores {
		if mode := d.Summary.MaintenanceMode; !d.Summary.Accessible || mode != "" &&
			mode != string(types.DatastoreSummaryMaintenanceModeStateNormal) {
			continue
		}
		if d.Summary.FreeSpace > most {
			most = d.Summary.FreeSpace
			spec.Location.Datastore = &d.Self
		}
	}
	if spec.Location.Datastore == nil {
		return errNowhere("datastore", "")
	}
	return nil
}

// network returns the class's network, or among several of that name the one on the
// class's switch.
func (a *account) network(ctx context.Context, s *spec) (object.NetworkReference, error) {
	finder, err := a.inventory.datacenter(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := finder.NetworkList(ctx, s.Network)
	if err != nil {
		return nil, missing("network", s.Network, cloud.BlocksCreate, err)
	}
	if s.SwitchUUID == "" {
		if len(found) > 1 {
			return nil, missing("network", s.Network, cloud.BlocksCreate, &find.MultipleFoundError{})
		}
		return found[0], nil
	}
	for _, n := range found {
		backing, err := n.EthernetCardBackingInfo(ctx)
		if err != nil {
			return nil, err
		}
		if onSwitch(backing, s.SwitchUUID) {
			return n, nil
		}
	}
	return nil, cloud.Worst("find network", []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec.switchUuid",
		Message: "names a switch that no network of that name is on; correct it or leave it out",
	}}, cloud.Warning)
}

// onSwitch reports whether a backing is on that distributed switch, or of that
// opaque network.
func onSwitch(backing types.BaseVirtualDeviceBackingInfo, id string) bool {
	switch b := backing.(type) {
	case *types.VirtualEthernetCardDistributedVirtualPortBackingInfo:
		return sameUUID(b.Port.SwitchUuid, id)
	case *types.VirtualEthernetCardOpaqueNetworkBackingInfo:
		return sameUUID(b.OpaqueNetworkId, id)
	}
	return false
}

// nic returns the backing of the first interface.
func (a *account) nic(ctx context.Context, s *spec) (types.BaseVirtualDeviceBackingInfo, error) {
	n, err := a.network(ctx, s)
	if err != nil {
		return nil, err
	}
	return n.EthernetCardBackingInfo(ctx)
}

// customization returns the stored customization of that name; nil if the class
// names none.
func (a *account) customization(ctx context.Context, s *spec) (*types.CustomizationSpec, error) {
	if s.Customization == "" {
		return nil, nil //nolint:nilnil // none is asked for
	}
	item, err := object.NewCustomizationSpecManager(a.v.Client).GetCustomizationSpec(ctx, s.Customization)
	if isFault[types.NotFound](err) {
		return nil, missing("customization", s.Customization, cloud.BlocksCreate, &find.NotFoundError{})
	}
	if err != nil {
		return nil, err
	}
	return &item.Spec, nil
}
