package cloudtest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// seed puts s into the cloud.
func (k *kit) seed(s Seed) string {
	k.Helper()
	k.needs(k.f.Backend.Seed != nil, "Backend.Seed")
	return k.f.Backend.Seed(k.T, s)
}

// foreign is C11: what is not ours is not shown, taken, changed or deleted.
func foreign(k *kit) {
	m, a := k.named(k.carriable("c11.a")), k.account()
	ours, strange := k.decoys(m)
	before := k.ledger()
	seen := k.listed(a, k.class)
	for what, id := range strange {
		if _, ok := seen[vmKey(id)]; ok {
			k.Errorf("list yields a VM of %s", what)
		}
	}
	for what, id := range ours {
		if _, ok := seen[vmKey(id)]; !ok {
			k.Errorf("list misses a VM of the class: %s", what)
		}
	}
	if vm, err := a.Get(k.Context(), m.now()); cloud.CodeOf(err) != cloud.NotFound {
		k.Errorf("get takes a foreign VM for ours: got %+v, %v, want NotFound", vm, err)
	}
	if d, err := a.Delete(k.Context(), m.now()); err != nil || !d.Done {
		k.Errorf("delete with only foreign VMs there: got %+v, %v, want done", d, err)
	}
	k.same(before)
	k.notByProviderID(a, m, ours, before)
	vm := m.running(a)
	for what, id := range merged(ours, strange) {
		if vm.ID == id {
			k.Errorf("create adopts a VM of %s", what)
		}
	}
	m.only()
	m.delete(a)
	k.same(before)
}

// vmKey is the key of the VM of that id.
func vmKey(id string) string { return key(cloud.Resource{Kind: cloud.KindVM, ID: id}) }

func merged(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// decoys are VMs that are easily taken for that of m: those that carry the
// tags of its class, and those that do not. Both by what differs.
func (k *kit) decoys(m *machine) (ours, strange map[string]string) {
	k.Helper()
	k.needs(len(k.f.Others) > 0, "Fixture.Others")
	vm := Seed{Kind: cloud.KindVM, Class: k.class, Name: m.ref.Name, OwnerID: m.ref.OwnerID, Age: time.Hour}
	ours, strange = map[string]string{}, map[string]string{}
	other := vm
	other.OwnerID = randomID()
	ours["another owner id"] = k.seed(other)
	for what, name := range map[string]string{
		"a longer name": m.ref.Name + "b", "a prefix": "x" + m.ref.Name,
		"a regular expression": "c11xa",
	} {
		s := vm
		s.Name, s.OwnerID = name, ""
		ours[what] = k.seed(s)
	}
	nameless := vm
	nameless.Name, nameless.OwnerID = "", ""
	ours["no name"] = k.seed(nameless)
	d := k.f.Driver()
	for _, what := range slices.Sorted(maps.Keys(k.f.Others)) {
		s := vm
		s.Class, s.OwnerID = k.parse(d, k.f.Others[what]), ""
		strange[what] = k.seed(s)
	}
	untagged := vm
	untagged.Untagged, untagged.OwnerID = true, ""
	strange["no tags"] = k.seed(untagged)
	return ours, strange
}

// notByProviderID names a foreign VM by its providerID: the owner id in the tag
// says that it is not the one that is meant. Whose it is can be asked, with a Ref that has neither.
func (k *kit) notByProviderID(a *guard, m *machine, ours map[string]string, before []cloud.Resource) {
	k.Helper()
	for r, err := range a.List(k.Context(), k.class) {
		if err != nil {
			k.Fatalf("list: %v", err)
		}
		if r.ID != ours["another owner id"] || r.VM == nil {
			continue
		}
		ref := m.now()
		ref.ProviderID = r.VM.ProviderID
		if vm, err := a.Get(k.Context(), ref); cloud.CodeOf(err) != cloud.NotFound {
			k.Errorf("get the VM of another owner by its providerID: got %+v, %v, want NotFound", vm, err)
		}
		alone := cloud.Ref{ProviderID: r.VM.ProviderID, Class: k.class}
		if vm, err := a.Get(k.Context(), alone); err != nil || vm.ID != r.ID || vm.OwnerID != r.OwnerID ||
			vm.Name != r.MachineName {
			k.Errorf("get a VM of any owner and name by its providerID: got %+v, %v, want %+v", vm, err, *r.VM)
		}
		if _, err := a.Delete(k.Context(), ref); err != nil {
			k.Logf("delete the VM of another owner by its providerID: %v", err)
		}
	}
	k.same(before)
}

// adoption is C12: what MCM made is ours, although it has no owner id.
func adoption(k *kit) {
	before, m, a := k.ledger(), k.machine(), k.account()
	id := k.seed(Seed{Kind: cloud.KindVM, Class: k.class, Name: m.ref.Name, Age: time.Hour})
	vm, err := a.Get(k.Context(), m.now())
	if err != nil || vm.ID != id || vm.Name != m.ref.Name || vm.OwnerID != "" {
		k.Errorf("get a VM of MCM's by name: got %q, name %q, owner %q, %v, want %q, %q and none", vm.ID, vm.Name, vm.OwnerID,
			err, id, m.ref.Name)
	}
	for _, form := range []string{vm.ProviderID, vm.NodeProviderID} {
		ref := m.now()
		if ref.ProviderID = form; form == "" {
			continue
		}
		if got, err := a.Get(k.Context(), ref); err != nil || got.ID != id {
			k.Errorf("get a VM of MCM's by %q: got %q, %v, want %q", form, got.ID, err, id)
		}
	}
	if r := k.listed(a, k.class)[vmKey(id)]; r.MachineName != m.ref.Name || r.OwnerID != "" {
		k.Errorf("list yields for a VM of MCM's: %+v", r)
	}
	anyOwner := m.now()
	anyOwner.OwnerID = ""
	if got, err := a.Get(k.Context(), anyOwner); err != nil || got.ID != id {
		k.Errorf("get with any owner: got %q, %v, want %q", got.ID, err, id)
	}
	m.ref.ProviderID = vm.ProviderID
	m.delete(a)
	m.gone(a)
	k.same(before)
}

// several is C23: two VMs for one machine, e.g. after MCM lost an answer.
func several(k *kit) {
	before, m, a := k.ledger(), k.machine(), k.account()
	s := Seed{Kind: cloud.KindVM, Class: k.class, Name: m.ref.Name, OwnerID: m.ref.OwnerID, Age: time.Hour}
	ids := []string{k.seed(s), k.seed(s)}
	vm, err := a.Get(k.Context(), m.now())
	if err == nil || cloud.CodeOf(err) != cloud.Unknown {
		k.Errorf("get with two VMs: got %q, %v, want an error of code Unknown", vm.ID, err)
	}
	for _, id := range ids {
		if err != nil && !strings.Contains(err.Error(), id) {
			k.Errorf("get with two VMs: the error does not name %s: %v", id, err)
		}
	}
	seen := k.listed(a, k.class)
	for _, id := range ids {
		if _, ok := seen[vmKey(id)]; !ok {
			k.Errorf("list misses %s", id)
		}
	}
	m.delete(a)
	k.same(before)
}

// dataSafety is C26: a disk that somebody attached survives the VM.
func dataSafety(k *kit) {
	m, a := k.machine(), k.account()
	vm := m.running(a)
	for _, s := range []Seed{
		{Kind: cloud.KindDisk, Class: k.class, Untagged: true, AttachTo: vm.ID},
		{Kind: cloud.KindDisk, Class: k.class, Untagged: true, Name: m.ref.Name, AttachTo: vm.ID},
	} {
		k.seed(s)
	}
	kept := keys(k.ledger())
	mine := map[string]bool{}
	for _, r := range k.ledger() {
		if r.OwnerID == m.ref.OwnerID {
			mine[key(r)] = true
		}
	}
	m.delete(a)
	has := keys(k.ledger())
	for x := range kept {
		if !mine[x] && !has[x] {
			k.Errorf("delete takes %s, which it did not make", x)
		}
	}
	for x := range mine {
		if has[x] {
			k.Errorf("delete leaves %s", x)
		}
	}
}

// orphans is C28: what is left of a VM is listed and can go alone.
func orphans(k *kit) {
	probe, a := k.machine(), k.account()
	probe.running(a)
	kinds := map[cloud.Kind]bool{}
	for _, r := range k.ledger() {
		kinds[r.Kind] = r.OwnerID == probe.ref.OwnerID && r.Kind != cloud.KindVM || kinds[r.Kind]
	}
	probe.delete(a)
	tried := 0
	for _, kind := range slices.Sorted(maps.Keys(kinds)) {
		if !kinds[kind] {
			continue
		}
		tried++
		k.part(string(kind), func(k *kit) { k.orphan(a, kind) })
	}
	k.needs(tried > 0, "a kind of resource beside the VM")
}

// orphan leaves a resource of that kind behind.
func (k *kit) orphan(a *guard, kind cloud.Kind) {
	k.Helper()
	before, m := k.ledger(), k.machine()
	id := k.seed(Seed{Kind: kind, Class: k.class, Name: m.ref.Name, OwnerID: m.ref.OwnerID, Age: 3 * time.Hour})
	r, ok := k.listed(a, k.class)[key(cloud.Resource{Kind: kind, ID: id})]
	if !ok {
		k.Errorf("list misses the %s %s", kind, id)
	} else if r.MachineName != m.ref.Name || r.OwnerID != m.ref.OwnerID || r.Attached || r.Created.IsZero() {
		k.Errorf("list yields for the %s: %+v, want its machine, its owner, a time, and that it is not attached", kind, r)
	}
	stranger := m.now()
	stranger.OwnerID = randomID()
	if _, err := a.Delete(k.Context(), stranger); err != nil {
		k.Errorf("delete for another owner: %v", err)
	}
	if !keys(k.ledger())[key(cloud.Resource{Kind: kind, ID: id})] {
		k.Errorf("delete for another owner takes the %s", kind)
	}
	m.delete(a)
	k.same(before)
}

// rebooting is C37: a reboot restarts the machine's VM, and changes nothing else about it.
func rebooting(k *kit) {
	k.needs(k.traits.Reboots && k.f.Backend.Boot != nil, "Traits.Reboots or Backend.Boot")
	before, a := k.ledger(), k.account()
	m, other := k.machine(), k.machine()
	vm, bystander := m.running(a), other.running(a)
	boot := func() string { return k.f.Backend.Boot(k.T, vm.ID) }
	untouched := k.f.Backend.Boot(k.T, bystander.ID)
	tags := k.tagsIn(k.listed(a, k.class))
	reboot := func(what string) {
		k.Helper()
		was := boot()
		k.until(what, func() (bool, error) { err := a.Reboot(k.Context(), m.now()); return err == nil, err })
		k.until(what+" has an effect", func() (bool, error) { return boot() != was, nil })
		k.sameVM(what, vm, m.running(a))
		k.sameTags(what, tags, a, k.class)
	}
	reboot("reboot")
	for _, s := range k.f.Backend.States {
		if s.Want == cloud.StateStopped {
			s.Set(k.T, vm.ID)
			reboot("reboot of a VM that is " + s.Name)
		}
	}
	fault := k.proxy.Inject(Fault{Kind: DropResponse, Match: Mutating})
	reboot("reboot whose answer is lost")
	k.fires(fault)

	stranger := m.now()
	stranger.OwnerID = randomID()
	k.notRebooted("the VM of another owner", a, stranger)
	if now := k.f.Backend.Boot(k.T, bystander.ID); now != untouched {
		k.Errorf("the VM of another machine was rebooted: %s, want %s", now, untouched)
	}
	m.delete(a)
	k.notRebooted("a VM that is gone", a, m.now())
	other.delete(a)
	k.same(before)
}

// sameVM fails unless a VM is what it was before its reboot. Clouds may show an address later
// than the VM: more of them are no fault.
func (k *kit) sameVM(what string, was, is cloud.VM) {
	k.Helper()
	if is.ID != was.ID || is.ProviderID != was.ProviderID || is.NodeProviderID != was.NodeProviderID ||
		is.NodeName != was.NodeName ||
		slices.ContainsFunc(was.Addresses, func(a cloud.Address) bool { return !slices.Contains(is.Addresses, a) }) {
		k.Errorf("%s: the VM was %+v and is %+v", what, was, is)
	}
}

// notRebooted fails unless a reboot of r is refused, and nothing is asked of the cloud.
func (k *kit) notRebooted(what string, a *guard, r cloud.Ref) {
	k.Helper()
	n := k.mutations(func() {
		if err := a.Reboot(k.Context(), r); cloud.CodeOf(err) != cloud.NotFound {
			k.Errorf("reboot of %s: got %v, want NotFound", what, err)
		}
	})
	if n > 0 {
		k.Errorf("reboot of %s: %d mutating calls, want none", what, n)
	}
}

// console is C39: the end of a console is read, of the machine's VM only, and nothing changes.
func console(k *kit) {
	k.needs(k.traits.Consoles && k.f.Backend.Console != nil, "Traits.Consoles or Backend.Console")
	before, a := k.ledger(), k.account()
	m, other := k.machine(), k.machine()
	vm, bystander := m.running(a), other.running(a)
	k.f.Backend.Console(k.T, bystander.ID, "the console of another VM\n")
	long := &strings.Builder{}
	for i := range 60 {
		fmt.Fprintf(long, "[%4d.000000] \x1b[0;32m  OK  \x1b[0m %s\r\n", i, strings.Repeat("started ", 100))
	}
	for _, text := range []string{"cloud-init[612]: failed\n", long.String()} {
		want := cloud.ConsoleTail(k.f.Backend.Console(k.T, vm.ID, text))
		n := k.mutations(func() {
			k.until("the end of the console", func() (bool, error) {
				got, err := a.Console(k.Context(), m.now())
				return err == nil && got == want, err
			})
		})
		if n > 0 {
			k.Errorf("console: %d mutating calls, want none", n)
		}
	}
	stranger := m.now()
	stranger.OwnerID = randomID()
	k.noConsole("the VM of another owner", a, stranger)
	m.delete(a)
	k.noConsole("a VM that is gone", a, m.now())
	other.delete(a)
	k.same(before)
}

// noConsole fails unless r has no console.
func (k *kit) noConsole(what string, a *guard, r cloud.Ref) {
	k.Helper()
	if text, err := a.Console(k.Context(), r); cloud.CodeOf(err) != cloud.NotFound {
		k.Errorf("console of %s: got %d bytes, %v, want NotFound", what, len(text), err)
	}
}
