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

// Owner is an object that has a VM, of either door.
type Owner struct {
	Text       string // "Machine default/m-1"
	Name       string // of the machine
	ID         string // durable owner id
	ProviderID string // of its VM, in any form; empty until known
	// Creating is set while its VM may exist before the object knows it.
	Creating bool
	// Held says why nothing that may be its may be touched; empty if it may.
	Held string
}

// Owners finds the objects of one door that may own a resource.
type Owners interface {
	// Find returns every object that has the resource's owner id, its machine
	// name, or its providerID, as a cache shows them.
	Find(ctx context.Context, r cloud.Resource) ([]Owner, error)
	// Live returns Owners that know what the API server shows at this time.
	Live(ctx context.Context) (Owners, error)
	// Judges reports whether a resource that nobody owns is an orphan of this door.
	// Each resource is judged by one door at most, and by none where that door's
	// controllers do not run.
	Judges(r cloud.Resource) bool
	// Kind is the kind of the owners, whose deletion is a reason to look.
	Kind() client.Object
}

// Witness returns door as one that knows owners and judges nothing: that of
// controllers which run elsewhere.
func Witness(door Owners) Owners { return witness{door} }

type witness struct{ Owners }

// Live returns a witness of what the API server shows.
func (w witness) Live(ctx context.Context) (Owners, error) {
	now, err := w.Owners.Live(ctx)
	return witness{now}, err
}

// Judges is false.
func (w witness) Judges(cloud.Resource) bool { return false }

// ofClusterAPI reports whether a resource was made for a Cluster of Cluster API.
func ofClusterAPI(r cloud.Resource) bool { return r.Tags[machinev1.ClusterIDTag] != "" }

// native are the kind and the competence of the native door.
type native struct{}

// Judges is true for what was not made for a Cluster of Cluster API.
func (native) Judges(r cloud.Resource) bool { return !ofClusterAPI(r) }

// Kind is Machine.
func (native) Kind() client.Object { return &machinev1.Machine{} }

// The indexes that Machines are found by.
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

// machines are the owners of the native door.
type machines struct {
	native
	cached    client.Reader
	live      client.Reader
	namespace string
}

// NewMachines returns the Owners of the native door: the Machines of a namespace,
// or of all if it is empty. cached has Indexes; live reads from the API server.
func NewMachines(cached, live client.Reader, namespace string) Owners {
	return &machines{cached: cached, live: live, namespace: namespace}
}

// Find looks up, and copies nothing.
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

// Live lists all Machines once, so that one request answers for all resources.
func (o *machines) Live(ctx context.Context) (Owners, error) {
	now := &nativeSnapshot{snapshot: snapshot{byKey: map[key][]Owner{}}}
	err := live.Pages(ctx, o.live, func(page *machinev1.MachineList) {
		for i := range page.Items {
			now.add(ownerOf(&page.Items[i]))
		}
	}, client.InNamespace(o.namespace))
	return now, err
}

// key is one way to find an owner.
type key struct{ field, value string }

// keysOf returns the ways in which the owner of r can be found.
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

// snapshot are owners at one time.
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

// nativeSnapshot are the owners of the native door at one time.
type nativeSnapshot struct {
	native
	snapshot
}

// Live returns s itself.
func (s *nativeSnapshot) Live(context.Context) (Owners, error) { return s, nil }

// ownerOf is what a Machine means to the resources of the cloud.
func ownerOf(m *machinev1.Machine) Owner {
	phase := m.Status.CurrentStatus.Phase
	return Owner{
		Text: "Machine " + m.Namespace + "/" + m.Name, Name: m.Name, ID: machinev1.OwnerID(m), ProviderID: m.Spec.ProviderID,
		Creating: m.Spec.ProviderID == "" || phase == "" || phase == machinev1.MachineCrashLoopBackOff,
		Held:     held(m),
	}
}

// held says why nothing of m may be touched: its VM is being adopted, moved or
// migrated, so it may be known under another name or id.
func held(m *machinev1.Machine) string {
	for _, a := range []string{HoldAnnotation, machinev1.MigrationHoldAnnotation, pausedAnnotation, moveAnnotation} {
		if _, ok := m.Annotations[a]; ok {
			return "annotation " + a
		}
	}
	return ""
}
