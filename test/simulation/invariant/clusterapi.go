package invariant

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// clusterAPIRules are the invariants of Cluster API alone.
func clusterAPIRules() []Rule {
	return []Rule{
		{Name: "IntentFirst", Resource: mcmIntentFirst},
		{Name: "NoSecondVM", Resource: mcmNoSecondVM},
		{Name: "VMStays", Resource: vmStays},
		{Name: "OwnAPIOnly", Resource: ownAPIOnly},
		{Name: "OnlyAtHome", Resource: onlyAtHome},
		{Name: "NothingLeftBehind", Object: mcmNothingLeftBehind},
		{Name: "ProviderIDStays", Object: mcmProviderIDStays},
		{Name: "ClusterGoesLast", Object: clusterGoesLast},
		{Name: "WorkersSettle", AtRest: workersSettle},
	}
}

// tagged reports whether a resource was made for a Cluster of Cluster API.
func tagged(r sim.Resource) bool { return r.Tags[machinev1.ClusterIDTag] != "" }

func (c *Checker) mcmID(m *infrav1.MCMMachine) string { return c.identity(m) }

// mcmMachines are the MCMMachines of a management cluster.
func mcmMachines(s *apiserver.Server) []*infrav1.MCMMachine {
	k := s.KindOf(&infrav1.MCMMachine{})
	if k == nil {
		return nil
	}
	var all []*infrav1.MCMMachine
	for _, o := range k.All() {
		all = append(all, o.(*infrav1.MCMMachine))
	}
	return all
}

// moved reports whether an object is only what a move has left of it.
func moved(m *infrav1.MCMMachine) bool {
	_, leaves := m.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return leaves
}

// claimants are the MCMMachines that a VM belongs to, in all management clusters.
func (c *Checker) claimants(r sim.Resource) []*infrav1.MCMMachine {
	var found []*infrav1.MCMMachine
	for _, s := range c.Homes {
		for _, m := range mcmMachines(s) {
			if id := r.Tags[ownerTag]; id != "" && c.mcmID(m) == id || m.Spec.ProviderID != "" &&
				strings.HasSuffix(m.Spec.ProviderID, "/"+r.ID) {
				found = append(found, m)
			}
		}
	}
	return found
}

// mcmIntentFirst: a VM is made only for an MCMMachine that says who it is, holds
// on to what is made, and may not be moved meanwhile.
func mcmIntentFirst(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !made(before, now) || w == nil || !tagged(now) {
		return nil
	}
	id := now.Tags[ownerTag]
	for _, m := range mcmMachines(w.Home) {
		if c.mcmID(m) != id {
			continue
		}
		notes := m.Annotations
		switch {
		case moved(m) || w.Late || c.strippedSince(m, w):
			return nil // it was asked for before
		case notes[machinev1.OwnerIDAnnotation] != id, !slices.Contains(m.Finalizers, machinev1.MCMMachineFinalizer):
			return fmt.Errorf("VM %s is made for MCMMachine %s before that has finalizer and owner id", now.ID, m.Name)
		case notes[machinev1.CreateAttemptAnnotation] == "", notes[infrav1.MadeFromAnnotation] == "",
			notes[clusterctlv1.BlockMoveAnnotation] == "":
			return fmt.Errorf("VM %s is made for MCMMachine %s, which does not say that one is asked for", now.ID, m.Name)
		}
		return nil
	}
	if at, gone := c.removed[id]; gone && !at.Before(w.Began) {
		return nil // it went while the request was on its way
	}
	return fmt.Errorf("VM %s is made for owner id %q, which no MCMMachine there has", now.ID, id)
}

// mcmNoSecondVM: an MCMMachine that has a providerID, from its birth or since its
// VM was made, gets no VM any more, whatever became of that one.
func mcmNoSecondVM(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !made(before, now) || w == nil || !tagged(now) {
		return nil
	}
	for _, m := range c.claimants(now) {
		if bound := c.bound[c.mcmID(m)]; m.Spec.ProviderID != "" && bound.Before(w.Began) {
			return fmt.Errorf("MCMMachine %s has VM %s and gets VM %s", m.Name, m.Spec.ProviderID, now.ID)
		}
	}
	return nil
}

// vmStays: the VM of an MCMMachine is ended only when that is being deleted, or was when
// the reconcile began.
func vmStays(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || w == nil {
		return nil
	}
	for _, m := range c.claimants(now) {
		other := m.Spec.ProviderID != "" && !strings.HasSuffix(m.Spec.ProviderID, "/"+now.ID)
		switch {
		case other, moved(m):
			continue
		case !m.DeletionTimestamp.IsZero(), c.copies(m, now), c.wasDeleted(c.mcmID(m), w.Began),
			m.Annotations[machinev1.NextClassAnnotation] != "", c.strippedSince(m, w): // of the next class
			return nil
		}
		return fmt.Errorf("VM %s is ended although it is that of MCMMachine %s, which stays", now.ID, m.Name)
	}
	return nil
}

// copies reports whether an MCMMachine is only the copy of a native Machine, which is
// being deleted: a move between the APIs had not reached its VM yet.
func (c *Checker) copies(m *infrav1.MCMMachine, vm sim.Resource) bool {
	_, rests := m.Annotations[clusterv1.PausedAnnotation]
	native := c.machineOf(vm.Tags[ownerTag])
	return rests && native != nil && !native.DeletionTimestamp.IsZero()
}

// ownAPIOnly: a collector of orphans ends nothing that was made through the other API.
func ownAPIOnly(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	if !c.ended(before, now) || w == nil {
		return nil
	}
	switch {
	case w.Controller == "machinesafetyorphanvms" && tagged(now):
		return fmt.Errorf("the native collector ends VM %s, which was made for a Cluster of Cluster API", now.ID)
	case w.Controller == "mcmorphanvms" && !tagged(now):
		return fmt.Errorf("the collector of Cluster API ends VM %s, which was not made for a Cluster", now.ID)
	}
	return nil
}

// onlyAtHome: what belongs to a Cluster is made and ended only from where that
// lives, and not while it is paused there.
func onlyAtHome(c *Checker, before *sim.Resource, now sim.Resource, w *Writer) error {
	what := "ended"
	switch {
	case w == nil, !tagged(now):
		return nil
	case made(before, now):
		what = "made"
	case !c.ended(before, now):
		return nil
	}
	id := now.Tags[machinev1.ClusterIDTag]
	since, here := c.active[place{w.Home, id}]
	if here && since.paused.IsZero() || !since.paused.Before(w.Began) {
		return nil
	}
	if c.Now().Sub(since.paused) < c.Lag {
		return nil // its caches may not show that yet
	}
	return fmt.Errorf("VM %s is %s by a manager whose management cluster has not been its Cluster's since %s", now.ID,
		what, since.paused.Format(time.TimeOnly))
}

// place is a Cluster, by its durable id, in a management cluster.
type place struct {
	server *apiserver.Server
	id     string
}

// presence is since when a Cluster is paused or gone in some place; zero if it is
// neither.
type presence struct{ paused time.Time }

// noteClusters remembers where Clusters live.
func (c *Checker) noteClusters(change apiserver.Change) {
	switch change.Object().(type) {
	case *clusterv1.Cluster, *infrav1.MCMCluster:
	default:
		return
	}
	c.countClusters()
}

// countClusters remembers where Clusters live now.
func (c *Checker) countClusters() {
	for _, s := range c.Homes {
		k := s.KindOf(&infrav1.MCMCluster{})
		if k == nil {
			continue
		}
		seen := map[string]bool{}
		for _, o := range k.All() {
			infra := o.(*infrav1.MCMCluster)
			id := machinev1.OwnerID(infra) // after a restore to before it was annotated, its UID again
			cluster, found := s.KindOf(&clusterv1.Cluster{}).Look(types.NamespacedName{
				Namespace: infra.Namespace,
				Name:      infra.Labels[clusterv1.ClusterNameLabel],
			}).(*clusterv1.Cluster)
			if id == "" || !found || cluster.Spec.Paused != nil && *cluster.Spec.Paused {
				continue
			}
			seen[id] = true
			c.active[place{s, id}] = presence{}
		}
		for at, p := range c.active {
			if at.server == s && !seen[at.id] && p.paused.IsZero() {
				c.active[at] = presence{paused: c.Now()}
			}
		}
	}
}

func mcmIn(c apiserver.Change) (before, after *infrav1.MCMMachine) {
	before, _ = c.Old.(*infrav1.MCMMachine)
	after, _ = c.New.(*infrav1.MCMMachine)
	return before, after
}

// mcmNothingLeftBehind: an MCMMachine goes only when its VM is gone, unless it is
// to be left.
func mcmNothingLeftBehind(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := mcmIn(change)
	if before == nil || after != nil || w == nil || before.Annotations[machinev1.ReleaseAnnotation] == "true" ||
		moved(before) {
		return nil
	}
	if before.Annotations[machinev1.RetainVMAnnotation] == "true" {
		c.retained[c.mcmID(before)] = true
		return nil
	}
	for _, vm := range c.Cloud.VMs() {
		if vm.Tags[ownerTag] == c.mcmID(before) && !c.unasked[vm.ID] {
			return fmt.Errorf("MCMMachine %s disappears although VM %s is %s", before.Name, vm.ID, vm.VM.State)
		}
	}
	return nil
}

// mcmProviderIDStays: an MCMMachine keeps its VM once it has been told to core.
func mcmProviderIDStays(_ *Checker, change apiserver.Change, w *Writer) error {
	before, after := mcmIn(change)
	if w == nil || before == nil || after == nil {
		return nil
	}
	return sameVM("MCMMachine "+after.Name, before.Spec.ProviderID, after.Spec.ProviderID)
}

// clusterGoesLast: an MCMCluster goes only when nothing of its Cluster's machines
// is left in the cloud, but what was to be left, and the VM of an MCMMachine that
// somebody else took out of the API server, finalizers first.
func clusterGoesLast(c *Checker, change apiserver.Change, w *Writer) error {
	before, ok := change.Old.(*infrav1.MCMCluster)
	if !ok || change.New != nil || w == nil {
		return nil
	}
	for _, vm := range c.Cloud.VMs() {
		if vm.Tags[machinev1.ClusterIDTag] == before.Annotations[machinev1.OwnerIDAnnotation] &&
			!c.retained[vm.Tags[ownerTag]] && !c.unasked[vm.ID] && !c.isTaken(vm) && vm.Deleting.IsZero() {
			return fmt.Errorf("MCMCluster %s disappears although VM %s (%s) is %s", before.Name, vm.ID, vm.Name(), vm.VM.State)
		}
	}
	return nil
}

// isTaken reports whether somebody else took the machine of a VM out of the API server.
func (c *Checker) isTaken(vm sim.Resource) bool {
	_, taken := c.taken[vm.Tags[ownerTag]]
	return taken && len(c.claimants(vm)) == 0
}

// workersSettle: once trouble has ended, every MachineDeployment of Cluster API
// has the Machines that it asks for, with VMs that their providers vouch for.
func workersSettle(c *Checker) error {
	for _, s := range c.Homes {
		k := s.KindOf(&clusterv1.Machine{})
		if k == nil {
			continue
		}
		count := map[types.UID]int32{}
		for _, o := range k.All() {
			m := o.(*clusterv1.Machine)
			if !m.DeletionTimestamp.IsZero() {
				return fmt.Errorf("Machine %s of Cluster API is still going", m.Name)
			}
			if err := c.workerSettles(s, m); err != nil {
				return err
			}
			if set, ok := s.KindOf(&clusterv1.MachineSet{}).Look(types.NamespacedName{
				Namespace: m.Namespace,
				Name:      ownerName(m),
			}).(*clusterv1.MachineSet); ok {
				if d, ok := s.KindOf(&clusterv1.MachineDeployment{}).Look(types.NamespacedName{
					Namespace: m.Namespace,
					Name:      ownerName(set),
				}).(*clusterv1.MachineDeployment); ok {
					count[d.UID]++
				}
			}
		}
		for _, o := range s.KindOf(&clusterv1.MachineDeployment{}).All() {
			d := o.(*clusterv1.MachineDeployment)
			// Core ignores a missing Cluster: this one was deleted before core ever saw it.
			at := types.NamespacedName{Namespace: d.Namespace, Name: d.Spec.ClusterName}
			if s.KindOf(&clusterv1.Cluster{}).Look(at) == nil {
				continue
			}
			if count[d.UID] != *d.Spec.Replicas {
				return fmt.Errorf("MachineDeployment %s of Cluster API has %d Machines and asks for %d", d.Name, count[d.UID],
					*d.Spec.Replicas)
			}
		}
		for _, o := range s.KindOf(&clusterv1.Cluster{}).All() {
			if !o.GetDeletionTimestamp().IsZero() {
				return fmt.Errorf("Cluster %s is still going", o.GetName())
			}
		}
	}
	return nil
}

func (c *Checker) workerSettles(s *apiserver.Server, m *clusterv1.Machine) error {
	infra, ok := s.KindOf(&infrav1.MCMMachine{}).Look(types.NamespacedName{
		Namespace: m.Namespace,
		Name:      m.Spec.InfrastructureRef.Name,
	}).(*infrav1.MCMMachine)
	adopted := ownerName(m) == ""
	switch {
	case !ok && adopted:
		return nil // what was deleted by hand is not replaced
	case !ok:
		return fmt.Errorf("Machine %s of Cluster API has no MCMMachine", m.Name)
	case m.Spec.ProviderID == "" && !adopted:
		return fmt.Errorf("Machine %s of Cluster API has no VM: %v", m.Name, infra.Status.Conditions)
	case !m.Status.NodeRef.IsDefined() && !adopted:
		return fmt.Errorf("Machine %s of Cluster API has no Node", m.Name)
	case !infra.DeletionTimestamp.IsZero():
		return fmt.Errorf("MCMMachine %s is still going: %v", infra.Name, infra.Status.Conditions)
	}
	return nil
}
