package vsphere

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/vmware/govmomi/find"
	"github.com/vmware/govmomi/object"
	"github.com/vmware/govmomi/pbm"
	pbmmethods "github.com/vmware/govmomi/pbm/methods"
	pbmtypes "github.com/vmware/govmomi/pbm/types"
	"github.com/vmware/govmomi/vim25/types"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// inventory remembers the objects that classes name by path. A path costs
// several calls to look up, and they rarely move.
type inventory struct {
	v     *vcenter
	known *driverkit.Cache[string, types.ManagedObjectReference]
}

// remember is how long a path stays known.
const remember = 5 * time.Minute

func newInventory(v *vcenter) inventory {
	return inventory{v, driverkit.NewCache[string, types.ManagedObjectReference](driverkit.CacheOptions{
		Keep: remember, Timeout: scanTimeout, Now: v.driver.now,
	})}
}

// forget drops all that is known, e.g. because something of it is gone.
func (i *inventory) forget() { i.known.Clear() }

// lookup returns what is known by that kind and name, or what find returns.
func (i *inventory) lookup(ctx context.Context, kind, name string,
	find func(context.Context) (object.Reference, error),
) (types.ManagedObjectReference, error) {
	op := "find " + kind
	return i.known.Get(ctx, op, kind+" "+name, func(ctx context.Context) (ref types.ManagedObjectReference, err error) {
		found, err := find(ctx)
		if err != nil {
			return ref, fail(op, err)
		}
		return found.Reference(), nil
	})
}

// datacenter returns a finder whose relative paths begin in the datacenter of s.
func (i *inventory) datacenter(ctx context.Context, s *spec) (*find.Finder, error) {
	finder := find.NewFinder(i.v.Client, true)
	ref, err := i.lookup(ctx, "datacenter", s.Datacenter, func(ctx context.Context) (object.Reference, error) {
		found, err := finder.DatacenterOrDefault(ctx, s.Datacenter)
		return found, missing("datacenter", s.Datacenter, cloud.BlocksAll, err)
	})
	if err != nil {
		return nil, err
	}
	dc := object.NewDatacenter(i.v.Client, ref)
	dc.InventoryPath = "" // filled in by the finder when it needs it
	return finder.SetDatacenter(dc), nil
}

// find returns what the field of s names. The datacenter is only asked for when
// the path is not known.
func (i *inventory) find(ctx context.Context, s *spec, field, path string) (types.ManagedObjectReference, error) {
	return i.lookup(ctx, field, s.Datacenter+" "+path, func(ctx context.Context) (object.Reference, error) {
		if found, err := i.direct(ctx, s, field, path); found != nil || err != nil {
			return found, err
		}
		finder, err := i.datacenter(ctx, s)
		if err != nil {
			return nil, err
		}
		severity := cloud.BlocksCreate
		if field == "folder" {
			severity = cloud.BlocksAll
		}
		found, err := findIn(ctx, finder, field, path)
		return found, missing(field, path, severity, err)
	})
}

// root is where the paths of a field begin in a datacenter, and the type of
// what they name.
type root struct{ folder, kind string }

func roots() map[string]root {
	return map[string]root{
		"folder": {"vm", "Folder"}, "templateVM": {"vm", "VirtualMachine"},
		"datastore": {"datastore", "Datastore"}, "datastoreCluster": {"datastore", "StoragePod"},
		"computeCluster": {"host", "ClusterComputeResource"}, "resourcePool": {"host", "ResourcePool"},
		"hostSystem": {"host", "HostSystem"},
	}
}

// direct looks a plain path up in one call; nil leaves it to the finder, which
// knows patterns, names without a path and defaults.
func (i *inventory) direct(ctx context.Context, s *spec, field, path string) (object.Reference, error) {
	at := roots()[field]
	full := strings.TrimPrefix(path, "/")
	switch {
	case path == "" || strings.ContainsAny(path+s.Datacenter, "*?[") || strings.HasPrefix(path, "."):
		return nil, nil //nolint:nilnil // not for us
	case full == path && s.Datacenter == "":
		return nil, nil //nolint:nilnil // not for us
	case full == path:
		full = strings.Trim(s.Datacenter, "/") + "/" + at.folder + "/" + path
	}
	found, err := object.NewSearchIndex(i.v.Client).FindByInventoryPath(ctx, full)
	if err != nil || found == nil || found.Reference().Type != at.kind {
		return nil, err
	}
	return found, nil
}

// findIn looks a path up as MCM's driver does.
func findIn(ctx context.Context, f *find.Finder, field, path string) (object.Reference, error) {
	switch field {
	case "folder":
		return f.FolderOrDefault(ctx, path)
	case "templateVM":
		return f.VirtualMachine(ctx, path)
	case "datastore":
		return f.Datastore(ctx, path)
	case "datastoreCluster":
		return f.DatastoreCluster(ctx, path)
	case "computeCluster":
		return f.ClusterComputeResource(ctx, path)
	case "resourcePool":
		return f.ResourcePool(ctx, path)
	case "hostSystem":
		return f.HostSystem(ctx, path)
	}
	return nil, fmt.Errorf("no such field: %s", field)
}

// missing explains that a field names nothing, or several objects. It returns other
// errors as they are.
func missing(field, path string, severity cloud.Severity, err error) error {
	_, none := errors.AsType[*find.NotFoundError](err)
	_, several := errors.AsType[*find.MultipleFoundError](err)
	_, noDefault := errors.AsType[*find.DefaultNotFoundError](err)
	_, manyDefaults := errors.AsType[*find.DefaultMultipleFoundError](err)
	var message string
	switch {
	case none || noDefault:
		message = fmt.Sprintf("names %q, which does not exist or may not be seen by this user; name one that is there", path)
	case several || manyDefaults:
		message = fmt.Sprintf("names %q, of which there are several; write the whole inventory path", path)
	default:
		return err
	}
	return cloud.Worst("find "+field, []cloud.Problem{{
		Severity: severity, Field: "providerSpec." + field,
		Message: message,
	}}, cloud.Warning)
}

// namesNothing reports whether err says that the class names an object that is not there,
// or none at all. A fault of vCenter's about a look-up has the code Invalid too, and
// leaves open whether the object is there.
func namesNothing(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Code == cloud.Invalid && len(e.Problems) > 0
}

// wrong is the error for a field that rules out creation.
func wrong(op, field, message string) error {
	return cloud.Worst(op, []cloud.Problem{{
		Severity: cloud.BlocksCreate, Field: "providerSpec." + field, Message: message,
	}}, cloud.BlocksCreate)
}

// escape returns a name as vCenter stores it.
func escape(name string) string {
	return strings.NewReplacer("%", "%25", "/", "%2f", `\`, "%5c").Replace(name)
}

// unescape returns a name that vCenter has stored as it was meant.
func unescape(name string) string {
	return strings.NewReplacer("%25", "%", "%2f", "/", "%2F", "/", "%5c", `\`, "%5C", `\`).Replace(name)
}

// networks returns the networks of the class's interfaces, in order.
func (a *account) networks(ctx context.Context, s *spec) ([]object.NetworkReference, error) {
	var all []object.NetworkReference
	for i, n := range s.nics() {
		found, err := a.network(ctx, s, i, n)
		if err != nil {
			return nil, err
		}
		all = append(all, found)
	}
	return all, nil
}

// network returns the network of the i-th interface, or among several of that name the
// one on its switch.
func (a *account) network(ctx context.Context, s *spec, i int, n nic) (object.NetworkReference, error) {
	finder, err := a.inventory.datacenter(ctx, s)
	if err != nil {
		return nil, err
	}
	found, err := finder.NetworkList(ctx, n.Network)
	if err != nil {
		return nil, missing(nicField(i, "network"), n.Network, cloud.BlocksCreate, err)
	}
	if n.SwitchUUID == "" {
		if len(found) > 1 {
			return nil, missing(nicField(i, "network"), n.Network, cloud.BlocksCreate, &find.MultipleFoundError{})
		}
		return found[0], nil
	}
	for _, candidate := range found {
		backing, err := candidate.EthernetCardBackingInfo(ctx)
		if err != nil {
			return nil, err
		}
		if onSwitch(backing, n.SwitchUUID) {
			return candidate, nil
		}
	}
	return nil, wrong("find network", nicField(i, "switchUuid"),
		"names a switch that no network of that name is on; correct it or leave it out")
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

// backings are those of the interfaces, in order.
func (a *account) backings(ctx context.Context, s *spec) ([]types.BaseVirtualDeviceBackingInfo, error) {
	networks, err := a.networks(ctx, s)
	if err != nil {
		return nil, err
	}
	var all []types.BaseVirtualDeviceBackingInfo
	for _, n := range networks {
		backing, err := n.EthernetCardBackingInfo(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, backing)
	}
	return all, nil
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

// storagePolicy returns the id of the class's storage policy; it is empty if the class
// names none.
func (a *account) storagePolicy(ctx context.Context, s *spec) (string, error) {
	if s.StoragePolicy == "" {
		return "", nil
	}
	name := s.StoragePolicy
	ref, err := a.inventory.lookup(ctx, "storagePolicy", name, func(ctx context.Context) (object.Reference, error) {
		id, err := a.findPolicy(ctx, name)
		return types.ManagedObjectReference{Type: "StoragePolicy", Value: id}, err
	})
	return ref.Value, err
}

// findPolicy returns the id of the storage policy of that name or id.
func (a *account) findPolicy(ctx context.Context, name string) (string, error) {
	profiles, err := a.profiles(ctx)
	if err != nil {
		return "", err
	}
	ids, err := profiles.QueryProfile(ctx, pbmtypes.PbmProfileResourceType{
		ResourceType: string(pbmtypes.PbmProfileResourceTypeEnumSTORAGE),
	}, string(pbmtypes.PbmProfileCategoryEnumREQUIREMENT))
	if err != nil {
		return "", err
	}
	all, err := profiles.RetrieveContent(ctx, ids)
	if err != nil {
		return "", err
	}
	for _, p := range all {
		if found := p.GetPbmProfile(); found.Name == name || found.ProfileId.UniqueId == name {
			return found.ProfileId.UniqueId, nil
		}
	}
	return "", missing("storagePolicy", name, cloud.BlocksCreate, &find.NotFoundError{})
}

// profiles returns a client of the storage policies, in the session of the account.
func (a *account) profiles(ctx context.Context) (*pbm.Client, error) {
	client := a.v.http.NewServiceClient(pbm.Path, pbm.Namespace)
	client.Transport, client.Cookie = a.v.http.Transport, a.v.http.SessionCookie
	res, err := pbmmethods.PbmRetrieveServiceContent(ctx, client, &pbmtypes.PbmRetrieveServiceContent{
		This: pbm.ServiceInstance,
	})
	if err != nil {
		return nil, err
	}
	return &pbm.Client{Client: client, ServiceContent: res.Returnval, RoundTripper: client}, nil
}

// suiting returns the datastores that serve a storage policy.
func (a *account) suiting(ctx context.Context, policy string, stores []types.ManagedObjectReference) (
	[]types.ManagedObjectReference, error,
) {
	profiles, err := a.profiles(ctx)
	if err != nil {
		return nil, err
	}
	var hubs []pbmtypes.PbmPlacementHub
	for _, ref := range stores {
		hubs = append(hubs, pbmtypes.PbmPlacementHub{HubType: ref.Type, HubId: ref.Value})
	}
	result, err := profiles.CheckRequirements(ctx, hubs, nil, []pbmtypes.BasePbmPlacementRequirement{
		&pbmtypes.PbmPlacementCapabilityProfileRequirement{ProfileId: pbmtypes.PbmProfileId{UniqueId: policy}},
	})
	if err != nil {
		return nil, err
	}
	suits := result.CompatibleDatastores()
	return slices.DeleteFunc(slices.Clone(stores), func(ref types.ManagedObjectReference) bool {
		return !slices.ContainsFunc(suits, func(h pbmtypes.PbmPlacementHub) bool { return h.HubId == ref.Value })
	}), nil
}

// serving returns those of the datastores that satisfy the class's storage policy, or all
// if it names none.
func (a *account) serving(ctx context.Context, s *spec, stores []types.ManagedObjectReference) (
	[]types.ManagedObjectReference, error,
) {
	policy, err := a.storagePolicy(ctx, s)
	if err != nil || policy == "" || len(stores) == 0 {
		return stores, err
	}
	return a.suiting(ctx, policy, stores)
}

// profile names a storage policy in a request; an empty one is the datastore's default.
func profile(policy string) []types.BaseVirtualMachineProfileSpec {
	if policy == "" {
		return nil
	}
	return []types.BaseVirtualMachineProfileSpec{&types.VirtualMachineDefinedProfileSpec{ProfileId: policy}}
}
