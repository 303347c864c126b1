package orphan

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
)

// Owner is an object that has a VM: a Machine or an MCMMachine.
type Owner struct {
	Text       string // "Machine default/m-1"
	Name       string // of the machine
	ID         string // owner ID
	ProviderID string // of its VM, in any form; empty until known
	// Creating is true while its VM may exist although the object has no providerID.
	Creating bool
	// Held is why resources that may belong to it must not be removed; empty if they
	// may.
	Held string
}

// Owners finds the objects of one API that may own a resource.
type Owners interface {
	// Find returns every object with the owner ID, the machine name or the providerID
	// of the resource, as a cache shows them.
	Find(ctx context.Context, r cloud.Resource) ([]Owner, error)
	// Live returns Owners with what the API server shows at this time.
	Live(ctx context.Context) (Owners, error)
	// Judges reports whether a resource without an owner is an orphan of this API. At
	// most one of all Owners judges a resource, and none does where the controllers of
	// that API do not run.
	Judges(r cloud.Resource) bool
	// Kind returns the kind of the owners. A scan follows the deletion of one.
	Kind() client.Object
}

// OwnersOnly returns the Owners of an API as Owners that judge nothing, for an API whose controllers
// run in another process.
func OwnersOnly(api Owners) Owners { return ownersOnly{api} }

type ownersOnly struct{ Owners }

// Live returns OwnersOnly of what the API server shows.
func (w ownersOnly) Live(ctx context.Context) (Owners, error) {
	now, err := w.Owners.Live(ctx)
	return ownersOnly{now}, err
}

// Judges returns false.
func (w ownersOnly) Judges(cloud.Resource) bool { return false }

// ofClusterAPI reports whether a resource was created for a Cluster of Cluster API.
func ofClusterAPI(r cloud.Resource) bool { return r.Tags[machinev1.ClusterIDTag] != "" }

// native has what Owners of the native API judge, and their kind.
type native struct{}

// Judges reports whether r was not created for a Cluster of Cluster API.
func (native) Judges(r cloud.Resource) bool { return !ofClusterAPI(r) }

// Kind returns Machine.
func (native) Kind() client.Object { return &machinev1.Machine{} }

// Indexes of Machines.
const (
	byOwnerID    = "index.owner-id"
	byName       = "index.name"
	byProviderID = "index.machine-providerid"
)

// Indexes are the indexes of the control cluster that NewMachines needs, besides
// those of package index.
func Indexes() []index.Index {
	on := func(field string, value func(*machinev1.Machine) string) index.Index {
		return index.Index{Object: &machinev1.Machine{}, Field: field, Extract: func(o client.Object) []string {
			if v := value(o.(*machinev1.Machine)); v != "" {
				return []string{v}
			}
			return nil
		}}
	}
	return []index.Index{
		on(byOwnerID, func(m *machinev1.Machine) string { return machinev1.OwnerID(m) }),
		on(byName, func(m *machinev1.Machine) string { return m.Name }),
		on(byProviderID, func(m *machinev1.Machine) string { return m.Spec.ProviderID }),
	}
}

// machines are the Machines of a cache.
type machines struct {
	native
	cached    client.Reader
	live      client.Reader
	namespace string
}

// NewMachines returns the Owners of the native API: the Machines of a namespace, or
// of all namespaces if it is empty. cached has Indexes; live reads from the API server.
func NewMachines(cached, live client.Reader, namespace string) Owners {
	return &machines{cached: cached, live: live, namespace: namespace}
}

// Find looks the owners up in the cache, without copies.
func (o *machines) Find(ctx context.Context, r cloud.Resource) ([]Owner, error) {
	var found []Owner
	seen := map[string]bool{}
	for _, k := range keysOf(r) {
		var list machinev1.MachineList
		err := o.cached.List(ctx, &list, client.InNamespace(o.namespace), client.MatchingFields{k.field: k.value},
			client.UnsafeDisableDeepCopy)
		if err != nil {
			return nil, fmt.Errorf("look up machines of %s %s: %w", r.Kind, r.ID, err)
		}
		for i := range list.Items {
			if owner := ownerOf(&list.Items[i]); !seen[owner.Text] {
				seen[owner.Text] = true
				found = append(found, owner)
			}
		}
	}
	return found, nil
}

// Live lists all Machines from the API server, once for all resources.
func (o *machines) Live(ctx context.Context) (Owners, error) {
	now := &nativeSnapshot{snapshot: snapshot{byKey: map[key][]Owner{}}}
	err := live.Pages(ctx, o.live, func(page *machinev1.MachineList) {
		for i := range page.Items {
			now.add(ownerOf(&page.Items[i]))
		}
	}, client.InNamespace(o.namespace))
	return now, err
}

// key is an index and a value under which an owner can be found.
type key struct{ field, value string }

// keysOf returns the keys under which an owner of r can be found.
func keysOf(r cloud.Resource) []key {
	keys := []key{{byOwnerID, r.OwnerID}, {byName, r.MachineName}}
	if r.VM != nil {
		keys = append(keys, key{byProviderID, r.VM.ProviderID}, key{byProviderID, r.VM.NodeProviderID})
	}
	var out []key
	for _, k := range keys {
		if k.value != "" {
			out = append(out, k)
		}
	}
	return out
}

// snapshot has all owners at one time.
type snapshot struct{ byKey map[key][]Owner }

func (s *snapshot) add(o Owner) {
	for _, k := range []key{{byOwnerID, o.ID}, {byName, o.Name}, {byProviderID, o.ProviderID}} {
		s.byKey[k] = append(s.byKey[k], o)
	}
}

// Find returns who may own r.
func (s *snapshot) Find(_ context.Context, r cloud.Resource) ([]Owner, error) {
	var found []Owner
	seen := map[string]bool{}
	for _, k := range keysOf(r) {
		for _, owner := range s.byKey[k] {
			if !seen[owner.Text] {
				seen[owner.Text] = true
				found = append(found, owner)
			}
		}
	}
	return found, nil
}

// nativeSnapshot has all Machines at one time.
type nativeSnapshot struct {
	native
	snapshot
}

// Live returns s itself.
func (s *nativeSnapshot) Live(context.Context) (Owners, error) { return s, nil }

// ownerOf returns a Machine as the owner of resources.
func ownerOf(m *machinev1.Machine) Owner {
	phase := m.Status.CurrentStatus.Phase
	return Owner{
		Text: "Machine " + m.Namespace + "/" + m.Name, Name: m.Name, ID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID,
		Creating: m.Spec.ProviderID == "" || phase == "" || phase == machinev1.MachineCrashLoopBackOff,
		Held:     held(m),
	}
}

// held returns why the resources of m must not be removed: while its VM is adopted,
// moved or migrated, it may have another name or owner ID.
func held(m *machinev1.Machine) string {
	for _, a := range []string{holdAnnotation, machinev1.MigrationHoldAnnotation, pausedAnnotation, moveAnnotation} {
		if _, ok := m.Annotations[a]; ok {
			return "annotation " + a
		}
	}
	return ""
}
