// Package mcmtest is the kit for drivers that were written for Machine Controller Manager (MCM), behind
// package mcmdriver: what has to hold for a Machine of the native API, however such a driver answers. It
// asks less than package cloudtest, which is for drivers that keep the whole contract.
package mcmtest

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Harness is a wrapped driver with a cloud that the kit can disturb. Fields without a note are required.
type Harness struct {
	Driver cloud.Driver
	// Spec is a provider spec with which VMs can be made.
	Spec json.RawMessage
	// Secret are the credentials; nil where the driver needs none.
	Secret cloud.Credentials
	// BadSpec has a field of the wrong JSON type.
	BadSpec json.RawMessage

	// VMs are the names of the VMs in the cloud, in any order.
	VMs func() []string
	// Lose has the cloud carry out the next request for a VM and lose the answer.
	Lose func()
	// Refuse has the cloud answer every request for a VM with that fault, a key of Refusals, until it is
	// called with an empty one.
	Refuse func(fault string)
	// Refusals are the faults with what the first answer and all later ones have to be. One that is Unknown or
	// Unavailable leaves open what became of the request: then the second answer is Unavailable.
	Refusals map[string]cloud.Code
	// Advance lets time pass on the driver's clock.
	Advance func(d time.Duration)
	// Second puts another VM of that name into the cloud and returns its providerID. Nil where names
	// are unique.
	Second func(name string) string
}

// kit is one test with its cloud.
type kit struct {
	Harness

	class   cloud.Class
	account cloud.Account
	state   map[string]string // what was noted last, by machine
	prefix  string            // of the names: some drivers remember those of the whole process
}

// Run plays the lives of Machines as subtests, each on a harness of its own.
func Run(t *testing.T, newHarness func(t *testing.T) Harness) {
	t.Helper()
	for name, play := range map[string]func(k *kit, t *testing.T){
		"Life": (*kit).life, "LostAnswer": (*kit).lostAnswer, "LostAnswerThenDeletion": (*kit).lostThenDeleted,
		"Refusals": (*kit).refusals, "Roll": (*kit).roll, "SecondVM": (*kit).secondVM, "ClassGone": (*kit).classGone,
	} {
		t.Run(name, func(t *testing.T) {
			k := &kit{Harness: newHarness(t), state: map[string]string{}, prefix: strings.ToLower(name) + "-"}
			k.class, k.account = k.open(t, k.Spec)
			play(k, t)
		})
	}
}

// open returns the class with that spec, and its account.
func (k *kit) open(t *testing.T, spec json.RawMessage) (cloud.Class, cloud.Account) {
	t.Helper()
	class, _ := k.Driver.Parse(cloud.ClassInput{Name: "class", Namespace: "ns", Spec: spec})
	account, err := k.Driver.Open(t.Context(), class, k.Secret)
	if err != nil {
		t.Fatal(err)
	}
	return class, account
}

// ref is the VM of a Machine, as the native API asks for it.
func (k *kit) ref(name, providerID string) cloud.Ref {
	return cloud.Ref{
		Name: k.prefix + name, OwnerID: "owner-of-" + name, ProviderID: providerID, Class: k.class, State: k.state[name],
		Object: cloud.Object{UID: "uid-of-" + name, Labels: map[string]string{"name": name}},
	}
}

// create is one call.
func (k *kit) create(t *testing.T, name string) (cloud.VM, error) {
	t.Helper()
	return k.account.Create(t.Context(), cloud.CreateRequest{
		Ref: k.ref(name, ""), Token: "a1", UserData: []byte("boot"),
		Checkpoint: func(_ context.Context, state string) error {
			k.state[name] = state
			return nil
		},
	})
}

// made calls until there is a VM, and returns its providerID.
func (k *kit) made(t *testing.T, name string) string {
	t.Helper()
	var err error
	for range 20 {
		var vm cloud.VM
		if vm, err = k.create(t, name); err == nil && vm.RetryAfter == 0 {
			return vm.ProviderID
		}
		k.Advance(2 * time.Minute)
	}
	t.Fatalf("no VM of %s is made: %v", name, err)
	return ""
}

// removed calls until the VM is gone.
func (k *kit) removed(t *testing.T, r cloud.Ref) {
	t.Helper()
	var d cloud.Deletion
	var err error
	for range 20 {
		if d, err = k.account.Delete(t.Context(), r); err == nil && d.Done {
			return
		}
		k.Advance(2 * time.Minute)
	}
	t.Fatalf("the VM of %s is not removed: %+v, %v", r.Name, d, err)
}

// wants compares the VMs in the cloud.
func (k *kit) wants(t *testing.T, why string, names ...string) {
	t.Helper()
	for i := range names {
		names[i] = k.prefix + names[i]
	}
	if got := slices.Sorted(slices.Values(k.VMs())); !slices.Equal(got, names) {
		t.Errorf("%s: the cloud has the VMs %v, want %v", why, got, names)
	}
}

// life makes a VM, finds it, and removes it.
func (k *kit) life(t *testing.T) {
	t.Helper()
	id := k.made(t, "m1")
	k.wants(t, "created", "m1")
	if vm, err := k.account.Get(t.Context(), k.ref("m1", id)); err != nil || vm.ProviderID != id {
		t.Errorf("look up: %+v, %v, want %s", vm, err, id)
	}
	k.removed(t, k.ref("m1", id))
	k.wants(t, "removed")
	k.removed(t, k.ref("m1", id))
}

// lostAnswer: a request whose answer was lost is not made again.
func (k *kit) lostAnswer(t *testing.T) {
	t.Helper()
	k.Lose()
	if vm, err := k.create(t, "m1"); err == nil && vm.RetryAfter == 0 {
		t.Fatalf("the answer was not lost: %+v", vm)
	}
	k.made(t, "m1")
	k.wants(t, "a look, not a second request", "m1")
}

// lostThenDeleted: the VM of a request whose answer was lost is removed.
func (k *kit) lostThenDeleted(t *testing.T) {
	t.Helper()
	k.Lose()
	_, _ = k.create(t, "m1")
	k.wants(t, "the request was carried out", "m1")
	k.removed(t, k.ref("m1", ""))
	k.wants(t, "a Machine without a providerID may have a VM")
}

// refusals: an answer that tells why there is no VM stays the answer, and what was refused can be deleted.
func (k *kit) refusals(t *testing.T) {
	t.Helper()
	for _, fault := range slices.Sorted(maps.Keys(k.Refusals)) {
		want, name := k.Refusals[fault], "m-"+fault
		k.Refuse(fault)
		if _, err := k.create(t, name); cloud.CodeOf(err) != want || err == nil {
			t.Errorf("%s: got %v %v, want %v", fault, cloud.CodeOf(err), err, want)
		}
		if want == cloud.Unknown || want == cloud.Unavailable {
			want = cloud.Unavailable
		}
		if _, err := k.create(t, name); cloud.CodeOf(err) != want || err == nil {
			t.Errorf("%s, asked again at once: got %v %v, want %v", fault, cloud.CodeOf(err), err, want)
		}
		k.Refuse("")
		k.removed(t, k.ref(name, ""))
	}
	k.wants(t, "refused")
}

// roll makes a new VM and removes the old one.
func (k *kit) roll(t *testing.T) {
	t.Helper()
	older := k.made(t, "m1")
	k.made(t, "m2")
	k.removed(t, k.ref("m1", older))
	k.wants(t, "rolled", "m2")
}

// secondVM: the VM of another providerID is removed as the orphan collector does it, without a name.
// What else is there stays, and is not taken for what is left.
func (k *kit) secondVM(t *testing.T) {
	t.Helper()
	if k.Second == nil {
		t.Skip("names are unique in this cloud")
	}
	k.made(t, "m0")
	k.made(t, "m1")
	second := k.Second(k.prefix + "m1")
	r := k.ref("", second)
	r.Name, r.Object = "", cloud.Object{}
	k.removed(t, r)
	k.wants(t, "the second VM is removed", "m0", "m1")
	k.removed(t, r)
	k.wants(t, "removed again", "m0", "m1")
}

// classGone: a Machine whose class the driver cannot read, so that no VM was made, can be deleted.
func (k *kit) classGone(t *testing.T) {
	t.Helper()
	k.class, k.account = k.open(t, k.BadSpec)
	if _, err := k.create(t, "m1"); err == nil {
		t.Fatal("a VM was made with a spec of the wrong type")
	}
	k.removed(t, k.ref("m1", ""))
}
