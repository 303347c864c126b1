package sim

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/driverkit"
)

// account is the cloud.Account of one account of a simulated cloud.
type account struct {
	client client

	// Lookups that come together share a call; nil if each has its own.
	lookups *driverkit.Batcher[lookup, wanted, []Resource]
}

// The shortest and longest wait that the driver suggests.
const (
	minWait = 100 * time.Millisecond
	maxWait = 10 * time.Second
)

// Get returns the VM of r.
func (a *account) Get(ctx context.Context, r cloud.Ref) (cloud.VM, error) {
	const op = "get VM"
	s, err := driverkit.SpecOf[*spec](op, r.Class)
	if err != nil {
		return cloud.VM{}, err
	}
	var vms []Resource
	if id, known := (judge{}).DecodeProviderID(r.ProviderID); known {
		vms, err = a.byID(ctx, op, s, r, id)
	} else if r.ProviderID == "" {
		vms, err = a.byName(ctx, op, s, r)
		vms = slices.DeleteFunc(vms, func(f Resource) bool { return f.VM == nil })
	}
	if err != nil {
		return cloud.VM{}, err
	}
	return one(op, r, vms)
}

// Scope is the account of the Secret in the region of the class. It takes no call.
func (a *account) Scope(_ context.Context, c cloud.Class) (string, error) {
	return "account " + a.client.who.Account + ", region " + c.Region, nil
}

// Reboot boots the VM of r again.
func (a *account) Reboot(ctx context.Context, r cloud.Ref) error {
	const op = "reboot VM"
	vm, err := a.Get(ctx, r)
	if err != nil {
		return driverkit.WithOp(op, driverkit.Restrict(err, cloud.NotFound, cloud.Invalid))
	}
	if vm.State == cloud.StateDeleting {
		return cloud.Errorf(cloud.NotFound, op, CodeNotFound, "VM %s is being deleted", vm.ID)
	}
	return driverkit.Restrict(a.client.call(ctx, r.Class.Region, request{
		op: op, method: http.MethodPost, path: []string{"vms", vm.ID, "reboot"},
	}, &Resource{}), cloud.NotFound, cloud.Exhausted)
}

// Console returns what the VM of r has written to its console.
func (a *account) Console(ctx context.Context, r cloud.Ref) (string, error) {
	const op = "read console"
	vm, err := a.Get(ctx, r)
	if err != nil {
		return "", driverkit.WithOp(op, driverkit.Restrict(err, cloud.NotFound, cloud.Invalid))
	}
	if vm.State == cloud.StateDeleting {
		return "", cloud.Errorf(cloud.NotFound, op, CodeNotFound, "VM %s is being deleted", vm.ID)
	}
	var lines []ConsoleLine
	if err := a.client.call(ctx, r.Class.Region, request{
		op: op, method: http.MethodGet, path: []string{"vms", vm.ID, "console"},
	}, &lines); err != nil {
		return "", driverkit.Restrict(err, cloud.NotFound)
	}
	var text strings.Builder
	for _, l := range lines {
		text.WriteString(l.Text + "\n")
	}
	return cloud.ConsoleTail(text.String()), nil
}

// one returns the VM among those that were found. One that is going counts only
// where there is no other. Which of several is the machine's is unknown.
func one(op string, r cloud.Ref, vms []Resource) (cloud.VM, error) {
	staying := slices.DeleteFunc(slices.Clone(vms), func(vm Resource) bool { return !vm.Deleting.IsZero() })
	switch {
	case len(vms) == 0:
		return cloud.VM{}, cloud.Errorf(cloud.NotFound, op, CodeNotFound, "the cloud shows no VM of machine %q", r.Name)
	case len(staying) == 0:
		return vmOf(vms[len(vms)-1]), nil
	case len(staying) == 1:
		return vmOf(staying[0]), nil
	}
	var ids []string
	for _, vm := range staying {
		ids = append(ids, vm.ID)
	}
	return cloud.VM{}, cloud.Errorf(cloud.Unknown, op, "SeveralVMs", "machine %q has %d VMs: %s; delete all but one",
		r.Name, len(ids), strings.Join(ids, ", "))
}

// find returns everything in the cloud that is provably of r. Where a
// providerID is set it is the only VM that counts, and only its parts and loose
// ones of no other owner: other VMs of that name may be in use.
func (a *account) find(ctx context.Context, op string, s *spec, r cloud.Ref) ([]Resource, error) {
	if r.ProviderID == "" {
		return a.byName(ctx, op, s, r)
	}
	id, _ := judge{}.DecodeProviderID(r.ProviderID)
	found, err := a.lookedUp(ctx, op, s, r, wanted{r.Name, id})
	return slices.DeleteFunc(found, func(f Resource) bool {
		if f.VM != nil {
			return f.ID != id
		}
		if vm := f.attachedTo(); vm != "" {
			return vm != id
		}
		owner := f.Tags[ownerTag]
		return owner != "" && owner != r.OwnerID
	}), err
}

// byName returns what has the name of r and is provably of it; nothing without
// a name.
func (a *account) byName(ctx context.Context, op string, s *spec, r cloud.Ref) ([]Resource, error) {
	return a.lookedUp(ctx, op, s, r, wanted{name: r.Name})
}

// byID returns the VM of that id if it is provably of r; nothing otherwise.
func (a *account) byID(ctx context.Context, op string, s *spec, r cloud.Ref, id string) ([]Resource, error) {
	var vm Resource
	err := a.client.call(ctx, s.Region, request{op: op, method: http.MethodGet, path: []string{"vms", id}}, &vm)
	if cloud.CodeOf(err) == cloud.NotFound || err == nil && !s.owns(vm, r) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []Resource{vm}, nil
}

// owns reports whether a resource is provably of r: it carries the ownership tags
// of the class, the machine's owner id or none, and the machine's name. A
// resource with the machine's owner id may have any name, because machines that
// are restored elsewhere keep only the id.
func (s *spec) owns(item Resource, r cloud.Ref) bool {
	keys := s.ownership
	if len(keys) == 0 || slices.ContainsFunc(keys, func(key string) bool { _, has := item.Tags[key]; return !has }) {
		return false
	}
	owner := item.Tags[ownerTag]
	if r.OwnerID != "" && owner != "" {
		return owner == r.OwnerID
	}
	return r.Name == "" || item.Name() == "" || item.Name() == r.Name
}

// List yields the resources that carry the ownership tags of c.
func (a *account) List(ctx context.Context, c cloud.Class, kinds ...cloud.Kind) iter.Seq2[cloud.Resource, error] {
	return func(yield func(cloud.Resource, error) bool) {
		const op = "list resources"
		s, err := driverkit.SpecOf[*spec](op, c)
		if err != nil {
			yield(cloud.Resource{}, err)
			return
		}
		query := url.Values{"tag": s.ownership}
		if len(kinds) == 1 && kinds[0] == cloud.KindVM {
			query.Set("kind", KindVM)
		}
		for item, err := range a.pages(ctx, op, s.Region, query) {
			if err != nil {
				yield(cloud.Resource{}, err)
				return
			}
			if r := resourceOf(item); cloud.Wants(kinds, r.Kind) && !yield(r, nil) {
				return
			}
		}
	}
}

// pages yields every resource of a region that a query selects, page by page. It
// stops after the first error.
func (a *account) pages(ctx context.Context, op, region string, query url.Values) iter.Seq2[Resource, error] {
	return func(yield func(Resource, error) bool) {
		for {
			var page Page
			r := request{op: op, method: http.MethodGet, path: []string{"resources"}, query: query}
			if err := a.client.call(ctx, region, r, &page); err != nil {
				yield(Resource{}, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("next", page.Next)
		}
	}
}

// Capacity returns what a node of c will offer.
func (a *account) Capacity(ctx context.Context, c cloud.Class) (cloud.Capacity, error) {
	const op = "get instance type"
	s, err := driverkit.SpecOf[*spec](op, c)
	if err != nil {
		return cloud.Capacity{}, err
	}
	var t InstanceType
	r := request{op: op, method: http.MethodGet, path: []string{"instance-types", c.InstanceType}}
	if c.InstanceType == "" {
		return cloud.Capacity{}, cloud.Errorf(cloud.Invalid, op, CodeInvalidInstanceType,
			"providerSpec.instanceType is missing")
	}
	if err := a.client.call(ctx, s.Region, r, &t); err != nil {
		return cloud.Capacity{}, err
	}
	offered := map[string]string{
		"cpu": t.CPU, "memory": t.Memory, "gpu": t.GPU, "pods": t.Pods,
		"ephemeral-storage": t.EphemeralStorage,
	}
	maps.DeleteFunc(offered, func(_, quantity string) bool { return quantity == "" })
	return cloud.Capacity{Resources: offered, Architecture: t.Architecture}, nil
}

// within returns d, or what is closest to it and can be suggested as a wait.
func within(d time.Duration) time.Duration { return min(max(d, minWait), maxWait) }

// vmOf returns a VM as the controllers see it.
func vmOf(r Resource) cloud.VM {
	out := cloud.VM{
		ID: r.ID, ProviderID: ProviderID(r.Region, r.ID), NodeProviderID: ProviderID(r.Zone, r.ID),
		Name: r.Name(), OwnerID: r.Tags[ownerTag], NodeName: r.Name(),
		State: stateOf(r.VM.State), Reason: r.VM.Reason, Message: r.VM.Message,
		Region: r.Region, Zone: r.Zone, InstanceType: r.VM.InstanceType, Created: r.Made,
	}
	if name := r.Name(); name != "" {
		out.Addresses = append(out.Addresses, cloud.Address{Kind: "Hostname", Value: name})
	}
	for _, a := range r.VM.Addresses {
		out.Addresses = append(out.Addresses, cloud.Address(a))
	}
	return out
}

func stateOf(state string) cloud.State {
	switch state {
	case StatePending:
		return cloud.StatePending
	case StateRunning:
		return cloud.StateRunning
	case StateStopped:
		return cloud.StateStopped
	case StateFailed:
		return cloud.StateFailed
	case StateDeleting:
		return cloud.StateDeleting
	}
	return cloud.StateUnknown
}

// resourceOf returns a resource as the controllers see it.
func resourceOf(r Resource) cloud.Resource {
	out := cloud.Resource{
		Kind: kindOf(r), ID: r.ID, MachineName: r.Name(), OwnerID: r.Tags[ownerTag],
		Created: r.Made, Attached: r.attachedTo() != "", Retention: retentionOf(r),
		Tags: maps.Clone(r.Tags),
	}
	if r.VM != nil {
		vm := vmOf(r)
		out.VM = &vm
	}
	return out
}

func kindOf(r Resource) cloud.Kind {
	switch r.Kind {
	case KindDisk:
		return cloud.KindDisk
	case KindNIC:
		return cloud.KindInterface
	}
	return cloud.KindVM
}

// lookup is what lookups have in common that can share a call.
type lookup struct{ op, region, tags string }

// wanted is what a lookup asks for: resources of a name, and one of an id. Either
// may be empty.
type wanted struct{ name, id string }

// lookUpMax is how many lookups share a call.
const lookUpMax = 100

// batched makes the lookups of an account wait for each other.
func (a *account) batched(w driverkit.Window) {
	a.lookups = driverkit.NewBatcher(
		driverkit.BatchOptions{Window: w, Max: lookUpMax, Timeout: time.Minute}, a.lookUp,
	)
}

// lookedUp returns what is wanted, as of now, and provably of r.
func (a *account) lookedUp(ctx context.Context, op string, s *spec, r cloud.Ref, w wanted) ([]Resource, error) {
	if w == (wanted{}) {
		return nil, nil
	}
	key := lookup{op, s.Region, strings.Join(s.ownership, "\n")}
	look := a.lookUp
	if a.lookups != nil {
		look = func(ctx context.Context, key lookup, _ []wanted) ([]Resource, error) {
			return a.lookups.Do(ctx, op, key, w)
		}
	}
	all, err := look(ctx, key, []wanted{w})
	var found []Resource
	for _, item := range all {
		if (w.name != "" && item.Name() == w.name || item.ID == w.id) && s.owns(item, r) {
			found = append(found, item)
		}
	}
	return found, err
}

// lookUp returns all that is wanted and has the tags of the lookup.
func (a *account) lookUp(ctx context.Context, l lookup, all []wanted) ([]Resource, error) {
	query := url.Values{}
	if l.tags != "" {
		query["tag"] = strings.Split(l.tags, "\n")
	}
	for _, w := range all {
		if w.name != "" {
			query.Add("name", w.name)
		}
		if w.id != "" {
			query.Add("id", w.id)
		}
	}
	var found []Resource
	for item, err := range a.pages(ctx, l.op, l.region, query) {
		if err != nil {
			return nil, err
		}
		found = append(found, item)
	}
	return found, nil
}
