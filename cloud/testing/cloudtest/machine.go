package cloudtest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// machine is what a Machine object would remember about its VM.
type machine struct {
	k        *kit
	token    string
	userData []byte
	network  []cloud.Interface
	tags     map[string]string
	zone     string // that the VM is asked for in; empty leaves it to the class
	records  bool   // a providerID is remembered as soon as Create returns one, as the engine does

	mu  sync.Mutex
	ref cloud.Ref
}

// machine returns a new machine.
func (k *kit) machine() *machine {
	*k.counter++
	return k.named(fmt.Sprintf("%s-%d", strings.ToLower(k.id), *k.counter))
}

// named returns a machine of that name with an owner id of its own; without one and without
// tags for a legacy driver, which keeps neither.
func (k *kit) named(name string) *machine {
	m := &machine{
		k:        k,
		token:    randomID(),
		userData: []byte("#cloud-config\n# canary-" + rand.Text() + "\n"),
		tags: map[string]string{
			cloud.ClusterIDTag: randomID(), cloud.TagPrefix + "cluster-name": "c-1", cloud.TagPrefix + "cluster-namespace": "ns",
		},
		ref: cloud.Ref{Name: name, OwnerID: randomID(), Class: k.class, Created: time.Now()},
	}
	if k.traits.Legacy {
		m.ref.OwnerID, m.tags = "", nil
	}
	return m
}

// randomID has the form of a UUID.
func randomID() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// now is the ref with the last checkpoint.
func (m *machine) now() cloud.Ref {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ref
}

// checkpoint is CreateRequest.Checkpoint.
func (m *machine) checkpoint(_ context.Context, state string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ref.State = state
	return nil
}

// request is what Create gets.
func (m *machine) request() cloud.CreateRequest {
	return cloud.CreateRequest{
		Ref: m.now(), Token: m.token, UserData: m.userData, Network: m.network, Tags: m.tags, Zone: m.zone,
		Checkpoint: m.checkpoint,
	}
}

// attempt calls Create until it is finished or fails.
func (m *machine) attempt(a cloud.Account) (cloud.VM, error) {
	m.k.Helper()
	for range 200 {
		vm, err := a.Create(m.k.Context(), m.request())
		if err == nil && m.records {
			m.record(vm.ProviderID)
		}
		if err != nil || vm.RetryAfter == 0 {
			return vm, err
		}
		m.k.pass(vm.RetryAfter)
	}
	return cloud.VM{}, cloud.Errorf(cloud.Unknown, "create", "Endless", "not finished after 200 calls")
}

// record remembers a providerID; an empty one is none.
func (m *machine) record(providerID string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ref.ProviderID = cmp.Or(providerID, m.ref.ProviderID)
}

// create calls Create until it succeeds; errors that pass are borne.
func (m *machine) create(a cloud.Account) cloud.VM {
	m.k.Helper()
	var vm cloud.VM
	m.k.until("create "+m.ref.Name, func() (bool, error) {
		var err error
		vm, err = m.attempt(a)
		return err == nil, err
	})
	return vm
}

// running creates the VM, waits until it runs and remembers its providerID.
func (m *machine) running(a cloud.Account) cloud.VM {
	m.k.Helper()
	m.create(a)
	var vm cloud.VM
	m.k.until(m.ref.Name+" runs", func() (bool, error) {
		var err error
		vm, err = a.Get(m.k.Context(), m.now())
		if cloud.CodeOf(err) == cloud.NotFound {
			return false, nil // not believed within the settle time
		}
		return err == nil && vm.State == cloud.StateRunning, err
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ref.ProviderID = vm.ProviderID
	return vm
}

// remove calls Delete until it fails or is done.
func (m *machine) remove(a cloud.Account) error {
	m.k.Helper()
	for range 200 {
		d, err := a.Delete(m.k.Context(), m.now())
		if err != nil || d.Done {
			return err
		}
		m.k.pass(d.RetryAfter)
	}
	return cloud.Errorf(cloud.Unknown, "delete", "Endless", "not done after 200 calls")
}

// delete calls Delete until it is done; errors that pass are borne.
func (m *machine) delete(a cloud.Account) {
	m.k.Helper()
	m.k.until("delete "+m.ref.Name, func() (bool, error) {
		err := m.remove(a)
		return err == nil, err
	})
}

// gone fails unless Get says NotFound.
func (m *machine) gone(a cloud.Account) {
	m.k.Helper()
	if vm, err := a.Get(m.k.Context(), m.now()); cloud.CodeOf(err) != cloud.NotFound {
		m.k.Errorf("get %s after its deletion: got %+v, %v, want NotFound", m.ref.Name, vm, err)
	}
}

// only fails unless exactly one VM of m is in the cloud.
func (m *machine) only() {
	m.k.Helper()
	if ids := m.vms(); len(ids) != 1 {
		m.k.Errorf("%s has %d VMs, want 1: %v", m.ref.Name, len(ids), ids)
	}
}

// vms returns the ids of all VMs of m in the cloud.
func (m *machine) vms() []string {
	m.k.Helper()
	var ids []string
	for _, r := range m.k.ledger() {
		if r.Kind == cloud.KindVM && r.MachineName == m.ref.Name && r.OwnerID == m.ref.OwnerID {
			ids = append(ids, r.ID)
		}
	}
	return ids
}

// secretTexts are the forms in which the user data may not appear.
func (m *machine) secretTexts() []string {
	canary := strings.TrimSpace(strings.TrimPrefix(string(m.userData), "#cloud-config\n# "))
	return append(textOf([]byte(canary)), base64.StdEncoding.EncodeToString(m.userData))
}

// soon is within how long a call has to return that no longer waits for the cloud:
// a second, and more where Harness.Prompt allows for a machine with much other work.
func (k *kit) soon() time.Duration { return max(time.Second, k.h.Prompt/10) }

// pass lets d go by: in the cloud's time, or, where that is real, until the cloud
// rests, or a moment.
func (k *kit) pass(d time.Duration) {
	k.Helper()
	if k.f.Backend.Advance != nil {
		k.f.Backend.Advance(k.T, max(d, time.Second))
		return
	}
	if k.f.Backend.Rest != nil && k.f.Backend.Rest(k.T) {
		return
	}
	timer := time.NewTimer(min(max(d, 20*time.Millisecond), 500*time.Millisecond))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-k.Context().Done():
	}
}

// until lets time pass until f says true. It ends the case on an error that
// does not pass, or when f does not become true in time.
func (k *kit) until(what string, f func() (bool, error)) {
	k.Helper()
	const steps = 60 // virtual: 1s, 2s, 4s … 64s, 64s …, together about an hour
	deadline := time.Now().Add(k.h.Patience)
	var last error
	for i := 0; ; i++ {
		ok, err := f()
		if ok {
			return
		}
		last = err
		if err != nil && !passes(err) {
			k.Fatalf("%s: %v", what, err)
		}
		virtual := k.f.Backend.Advance != nil
		if virtual && i >= steps || !virtual && time.Now().After(deadline) {
			k.Fatalf("%s: not in time; last error: %v", what, last)
		}
		k.pass(time.Second << min(i, 6))
	}
}

// passes reports whether a controller would simply try again.
func passes(err error) bool {
	switch cloud.CodeOf(err) {
	case cloud.Throttled, cloud.Unavailable, cloud.Unknown:
		return true
	case cloud.NotFound, cloud.Invalid, cloud.Denied, cloud.Exhausted, cloud.TokenUsed:
	}
	return false
}

// ledger is everything in the cloud, sorted.
func (k *kit) ledger() []cloud.Resource {
	k.Helper()
	all := k.f.Backend.Ledger(k.T)
	slices.SortFunc(all, func(a, b cloud.Resource) int { return strings.Compare(key(a), key(b)) })
	return all
}

// key tells resources apart.
func key(r cloud.Resource) string { return string(r.Kind) + " " + r.ID }

// keys are the keys of rs.
func keys(rs []cloud.Resource) map[string]bool {
	m := map[string]bool{}
	for _, r := range rs {
		m[key(r)] = true
	}
	return m
}

// same fails unless the cloud has what it had.
func (k *kit) same(before []cloud.Resource) {
	k.Helper()
	had, has := keys(before), keys(k.ledger())
	for _, x := range slices.Sorted(maps.Keys(has)) {
		if !had[x] {
			k.Errorf("left behind: %s", x)
		}
	}
	for _, x := range slices.Sorted(maps.Keys(had)) {
		if !has[x] {
			k.Errorf("lost: %s", x)
		}
	}
}

// listed is everything that List yields, by key. It fails on an error and on
// what comes twice.
func (k *kit) listed(a cloud.Account, c cloud.Class) map[string]cloud.Resource {
	k.Helper()
	all := map[string]cloud.Resource{}
	for r, err := range a.List(k.Context(), c) {
		if err != nil {
			k.Fatalf("list: %v", err)
		}
		if _, twice := all[key(r)]; twice {
			k.Errorf("list yields %s twice", key(r))
		}
		all[key(r)] = r
	}
	return all
}

// count returns how many of calls match.
func count(calls []Call, match func(Call) bool) int {
	n := 0
	for _, c := range calls {
		if match(c) {
			n++
		}
	}
	return n
}

// mutations runs f and returns how many mutating calls it made.
func (k *kit) mutations(f func()) int {
	k.proxy.Forget()
	f()
	return count(k.proxy.Calls(), Mutating)
}
