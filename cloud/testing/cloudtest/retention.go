package cloudtest

import (
	"context"
	"maps"
	"slices"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// RecordRetention calls RecordRetention and checks what holds for every one.
func (g *guard) RecordRetention(ctx context.Context, c cloud.Class, parts []cloud.Resource) (err error) {
	g.k.Helper()
	given := slices.Clone(parts)
	g.promptly(ctx, "retention", func(ctx context.Context) { err = cloud.RecordRetention(ctx, g.next, c, given) })
	if err != nil {
		g.checkError("retention", err)
	}
	return err
}

// retention is C42: what was to stay when the VM was made stays, whatever any class says later,
// and nothing else does.
func retention(k *kit) {
	k.needs(k.f.Keeping.Spec != nil, "Fixture.Keeping")
	keeper := k.parse(k.f.Driver(), k.f.Keeping)
	if keeper.Owner != k.class.Owner || keeper.Endpoint != k.class.Endpoint {
		k.Fatal("Fixture.Keeping has other ownership tags, or another endpoint, than Fixture.Class")
	}
	var kept map[cloud.Kind]int
	k.part("SameClass", func(k *kit) {
		m, made := keepingMachine(k, keeper)
		m.delete(k.account())
		kept = m.left(k)
		if len(kept) == 0 || maps.Equal(kept, made) {
			k.Fatalf("of the parts %v of the VM %v are left, want some of them, and not all", made, kept)
		}
	})
	stays := func(name string, ends func(k *kit, m *machine)) {
		k.part(name, func(k *kit) {
			m, _ := keepingMachine(k, keeper)
			ends(k, m)
			if now := m.left(k); !maps.Equal(now, kept) {
				k.Errorf("left of the VM are %v, want %v", now, kept)
			}
		})
	}
	stays("ClassEdited", func(k *kit, m *machine) { m.by(k.class).delete(k.account()) })
	stays("SiblingScans", func(k *kit, m *machine) {
		m.delete(k.account())
		collect(k, m, cloud.RetentionKeep)
	})
	stays("Restored", func(k *kit, m *machine) {
		m.ref.ProviderID, m.ref.State = "", ""
		m.by(k.class).delete(k.account())
		collect(k, m, cloud.RetentionKeep)
	})
	stays("Older", func(k *kit, m *machine) {
		k.needs(k.f.Backend.Undecide != nil, "Backend.Undecide")
		k.f.Backend.Undecide(k.T)
		recordAll(k, m)
		m.by(k.class).delete(k.account())
		collect(k, m, cloud.RetentionKeep)
	})
	stays("OlderInDeletion", func(k *kit, m *machine) {
		k.needs(k.f.Backend.Undecide != nil, "Backend.Undecide")
		k.f.Backend.Undecide(k.T)
		m.by(k.class).delete(k.account())
		collect(k, m, cloud.RetentionKeep)
	})
	stays("Undecided", func(k *kit, m *machine) {
		k.needs(k.f.Backend.Undecide != nil, "Backend.Undecide")
		m.delete(k.account())
		k.f.Backend.Undecide(k.T)
		collect(k, m, cloud.RetentionUndecided)
	})
	k.part("KeepsLater", func(k *kit) {
		before, a, m := k.ledger(), k.account(), k.machine()
		m.running(a)
		m.by(keeper).delete(a)
		k.same(before)
	})
}

// keepingMachine makes a VM of the class that keeps something, and returns how many parts of each
// kind it has. Each of them says what becomes of it once the creation is finished.
func keepingMachine(k *kit, keeper cloud.Class) (m *machine, parts map[cloud.Kind]int) {
	k.Helper()
	a := k.account()
	m = k.machine().by(keeper)
	m.running(a)
	for _, r := range k.listed(a, k.class) {
		if r.OwnerID == m.ref.OwnerID && r.Unrecorded() {
			k.Errorf("once its creation is finished, the %s %s of the VM has not recorded that its retention is %s",
				r.Kind, r.ID, r.Retention)
		}
	}
	return m, m.left(k)
}

// by gives m another class.
func (m *machine) by(c cloud.Class) *machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ref.Class = c
	return m
}

// left are how many disks and interfaces of m the cloud has, by kind.
func (m *machine) left(k *kit) map[cloud.Kind]int {
	k.Helper()
	all := map[cloud.Kind]int{}
	for _, r := range k.ledger() {
		if r.OwnerID == m.ref.OwnerID && (r.Kind == cloud.KindDisk || r.Kind == cloud.KindInterface) {
			all[r.Kind]++
		}
	}
	return all
}

// collect lists, and deletes as the orphan collector does, with a class that keeps nothing and
// without a VM: the listing shows what becomes of each part.
func collect(k *kit, m *machine, want cloud.Retention) {
	k.Helper()
	a := k.account()
	for _, r := range k.listed(a, k.class) {
		if r.OwnerID == m.ref.OwnerID && (r.Retention != want || r.Attached) {
			k.Errorf("the listing shows that the %s %s has the retention %q, attached: %v; want %q and loose", r.Kind, r.ID,
				r.Retention, r.Attached, want)
		}
	}
	ref := m.now()
	ref.ProviderID, ref.State, ref.Class = "", "", k.class
	k.until("delete what is left of "+m.ref.Name, func() (bool, error) {
		d, err := a.Delete(k.Context(), ref)
		return d.Done, err
	})
}

// recordAll has the parts of VMs of before tagged, as a scan for orphans does.
func recordAll(k *kit, m *machine) {
	k.Helper()
	a := k.account()
	var parts []cloud.Resource
	for _, r := range k.listed(a, k.class) {
		if r.OwnerID == m.ref.OwnerID && r.Unrecorded() {
			parts = append(parts, r)
		}
	}
	if len(parts) == 0 {
		k.Error("no part of a VM of before is listed as one whose retention is not recorded")
	}
	k.until("record the retention of all parts", func() (bool, error) {
		err := a.RecordRetention(k.Context(), k.class, parts)
		return err == nil, err
	})
	for _, r := range k.listed(a, k.class) {
		if r.OwnerID == m.ref.OwnerID && r.Unrecorded() {
			k.Errorf("the %s %s is still listed as one whose retention is not recorded", r.Kind, r.ID)
		}
	}
}
