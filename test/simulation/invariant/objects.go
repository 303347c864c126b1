package invariant

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// ownerTag marks what was made for a machine in the cloud.
const ownerTag = machinev1.OwnerIDAnnotation

func (c *Checker) ownerID(m *machinev1.Machine) string { return c.identity(m) }

// identity is the owner id that an object had first, whatever somebody has done to its annotations since.
func (c *Checker) identity(o client.Object) string {
	if id := c.identities[o.GetUID()]; id != "" {
		return id
	}
	return machinev1.OwnerID(o)
}

// noteIdentity remembers the first owner id of an object, and when somebody else took it away.
func (c *Checker) noteIdentity(change apiserver.Change, w *Writer) {
	o := change.Object()
	id := o.GetAnnotations()[machinev1.OwnerIDAnnotation]
	if id != "" && c.identities[o.GetUID()] == "" {
		c.identities[o.GetUID()] = id
	}
	if w == nil && change.Old != nil && change.New != nil &&
		len(o.GetAnnotations()) < len(change.Old.GetAnnotations()) {
		c.stripped[o.GetUID()] = c.Now()
	}
}

// strippedSince reports whether somebody else took annotations away from an object since a reconcile began, or so short
// before that its caches may not have shown it.
func (c *Checker) strippedSince(o client.Object, w *Writer) bool {
	at, ever := c.stripped[o.GetUID()]
	return ever && !at.Before(w.Began.Add(-c.Lag))
}

// serves reports whether a machine is available.
func serves(m *machinev1.Machine) bool {
	phase := m.Status.CurrentStatus.Phase
	return m.DeletionTimestamp.IsZero() && (phase == machinev1.MachineRunning || phase == machinev1.MachineAvailable)
}

// active reports whether a machine counts as a replica.
func active(m *machinev1.Machine) bool {
	return m.DeletionTimestamp.IsZero() && m.Status.CurrentStatus.Phase != machinev1.MachineTerminating
}

// boundsOf is what a deployment asks for.
func boundsOf(d *machinev1.MachineDeployment) bounds {
	b := bounds{most: int(d.Spec.Replicas), least: 0, unlimited: true}
	if u := d.Spec.Strategy.RollingUpdate; d.Spec.Strategy.Type == machinev1.RollingUpdateStrategyType && u != nil {
		surge, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxSurge, int(d.Spec.Replicas), true)
		missing, _ := intstr.GetScaledValueFromIntOrPercent(u.MaxUnavailable, int(d.Spec.Replicas), false)
		b = bounds{most: int(d.Spec.Replicas) + surge, least: int(d.Spec.Replicas) - missing}
		if surge > 0 && d.Annotations[machinev1.SurgeFallbackAnnotation] == "true" {
			b.least = max(b.least-1, 0)
		}
	}
	if !d.DeletionTimestamp.IsZero() {
		b.unlimited = true
	}
	return b
}

func machineIn(c apiserver.Change) (before, after *machinev1.Machine) {
	before, _ = c.Old.(*machinev1.Machine)
	after, _ = c.New.(*machinev1.Machine)
	return before, after
}

// nothingLeftBehind: a Machine goes only when its VM is gone, unless the user
// releases it without, or it has moved to an MCMMachine.
func nothingLeftBehind(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if before == nil || after != nil || w == nil || before.Annotations[machinev1.ReleaseAnnotation] == "true" {
		return nil
	}
	for _, vm := range c.Cloud.VMs() {
		if vm.Tags[ownerTag] == c.ownerID(before) && len(c.claimants(vm)) == 0 {
			return fmt.Errorf("Machine %s disappears although VM %s is %s", before.Name, vm.ID, vm.VM.State)
		}
	}
	return nil
}

// providerIDStays: a Machine keeps its VM.
func providerIDStays(_ *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if w == nil || before == nil || after == nil {
		return nil
	}
	return sameVM("Machine "+after.Name, before.Spec.ProviderID, after.Spec.ProviderID)
}

// sameVM fails if an object that had a VM gets another one, or none.
func sameVM(name, before, after string) error {
	if before == "" || before == after {
		return nil
	}
	return fmt.Errorf("%s had VM %s and gets %q", name, before, after)
}

// classStays: a manager changes the class of a Machine or MCMMachine, or that which its VM is
// asked for with, only while the cloud has no VM of it.
func classStays(c *Checker, change apiserver.Change, w *Writer) error {
	if w == nil {
		return nil
	}
	id, name := "", ""
	if before, after := machineIn(change); before != nil && after != nil &&
		before.Spec.Class.Name != after.Spec.Class.Name {
		id, name = c.ownerID(after), after.Name
	}
	if before, after := mcmIn(change); before != nil && after != nil {
		was, is := before.Annotations[infrav1.MadeFromAnnotation], after.Annotations[infrav1.MadeFromAnnotation]
		if was != "" && was != is {
			id, name = c.mcmID(after), after.Name
		}
	}
	for _, vm := range c.resources {
		if id != "" && vm.VM != nil && vm.Tags[ownerTag] == id && vm.Deleting.IsZero() {
			return fmt.Errorf("machine %s gets another class although it has VM %s", name, vm.ID)
		}
	}
	return nil
}

// neverTooManyMachines: no Machine is created while there are as many as its set
// asks for.
func neverTooManyMachines(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if w == nil || before != nil || after == nil {
		return nil
	}
	ref := metav1.GetControllerOf(after)
	if ref == nil {
		return nil
	}
	asked, known := c.since(ref.UID, w.Began)
	if !known {
		return fmt.Errorf("Machine %s is created for a set that never was", after.Name)
	}
	members := labels.Everything()
	if set := c.setOf(after); set != nil && set.Spec.Selector != nil {
		members = labels.SelectorFromSet(set.Spec.Selector.MatchLabels)
	}
	count := 0
	for _, m := range c.machines() {
		// One without the labels that the set gives was taken out of it by a user: it
		// is to be released, and replaced. One that somebody else has just created was not
		// there when the reconcile began.
		if at, others := c.put[m.UID]; others && !at.Before(w.Began) {
			continue
		}
		if metav1.IsControlledBy(m, &metav1.ObjectMeta{UID: ref.UID}) && active(m) && members.Matches(labels.Set(m.Labels)) {
			count++
		}
	}
	if count > asked.most {
		return fmt.Errorf("Machine %s is the %d. of set %s, which asks for %d", after.Name, count, ref.Name, asked.most)
	}
	return nil
}

// withinSurge: the sets of a deployment never ask for more than its replicas and
// surge together, once one of them was made to ask for more.
func withinSurge(c *Checker, change apiserver.Change, w *Writer) error {
	after, ok := change.New.(*machinev1.MachineSet)
	if !ok || w == nil {
		return nil
	}
	was := int32(0)
	if before, had := change.Old.(*machinev1.MachineSet); had {
		was = before.Spec.Replicas
	}
	d := c.deploymentOf(after)
	if d == nil || after.Spec.Replicas <= was {
		return nil
	}
	total := 0
	for _, o := range c.Control.KindOf(after).All() {
		if s := o.(*machinev1.MachineSet); metav1.IsControlledBy(s, d) {
			total += int(s.Spec.Replicas)
		}
	}
	if asked, _ := c.since(d.UID, w.Began); total > asked.most {
		return fmt.Errorf("the sets of MachineDeployment %s ask for %d machines since %s does for %d, and %d is the most",
			d.Name, total, after.Name, after.Spec.Replicas, asked.most)
	}
	return nil
}

// going reports whether a change begins the end of a Machine, and returns it.
func going(change apiserver.Change) *machinev1.Machine {
	before, after := machineIn(change)
	if before == nil || !before.DeletionTimestamp.IsZero() {
		return nil
	}
	if after == nil || !after.DeletionTimestamp.IsZero() {
		return before
	}
	return nil
}

// healthyMachinesStay: a manager deletes a Machine only if it has failed, if its
// set has too many or goes, or if its node was deleted. Machines that went for
// another reason since the reconcile began count: it cannot have known.
func healthyMachinesStay(c *Checker, change apiserver.Change, w *Writer) error {
	m := going(change)
	if m == nil || w == nil || m.Status.CurrentStatus.Phase == machinev1.MachineFailed {
		return nil
	}
	set := c.setOf(m)
	if set == nil || !set.DeletionTimestamp.IsZero() || c.nodeGoes(m.Labels[machinev1.NodeLabel]) {
		return nil
	}
	if d := c.deploymentOf(set); d != nil && !d.DeletionTimestamp.IsZero() {
		return nil
	}
	count := 1 // m itself
	for _, o := range c.machines() {
		if o.UID != m.UID && metav1.IsControlledBy(o, set) && active(o) {
			count++
		}
	}
	for _, gone := range c.ceased {
		if gone.pool == set.UID && !gone.at.Before(w.Began) {
			count++
		}
	}
	if asked, _ := c.since(set.UID, w.Began); count <= asked.least {
		return fmt.Errorf("Machine %s (%s) is deleted although it is one of %d and set %s asks for %d",
			m.Name, m.Status.CurrentStatus.Phase, count, set.Name, asked.least)
	}
	return nil
}

// nodeGoes reports whether a node does not exist or is being deleted, or was a
// short time ago.
func (c *Checker) nodeGoes(name string) bool {
	node := c.node(name)
	return node == nil || !node.GetDeletionTimestamp().IsZero()
}

// node returns the Node of that name, nil if there is none.
func (c *Checker) node(name string) client.Object {
	for _, k := range c.Target.Kinds() {
		if k.GVK.Kind == "Node" {
			return k.Look(types.NamespacedName{Name: name})
		}
	}
	return nil
}

// failedForAReason: a machine that has run is called Failed only if its node was
// unhealthy.
func failedForAReason(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if w == nil || before == nil || after == nil || after.Status.CurrentStatus.Phase != machinev1.MachineFailed {
		return nil
	}
	switch before.Status.CurrentStatus.Phase {
	case machinev1.MachineRunning, machinev1.MachineUnknown, machinev1.MachinePending:
	default:
		return nil
	}
	if c.ailed(after.Labels[machinev1.NodeLabel]) {
		return nil
	}
	return fmt.Errorf("Machine %s was %s and is called Failed, and its node has been healthy for long: %s",
		after.Name, before.Status.CurrentStatus.Phase, after.Status.LastOperation.Description)
}

// givenUpInTime: a machine whose VM runs is given up only when it was unhealthy
// for the health timeout.
func givenUpInTime(c *Checker, change apiserver.Change, w *Writer) error {
	before, after := machineIn(change)
	if w == nil || before == nil || after == nil || before.Status.CurrentStatus.Phase != machinev1.MachineUnknown ||
		after.Status.CurrentStatus.Phase != machinev1.MachineFailed || !c.runs(after) {
		return nil
	}
	if unhealthy := c.Now().Sub(before.Status.CurrentStatus.LastUpdateTime.Time); unhealthy < c.HealthTimeout {
		return fmt.Errorf("Machine %s is given up after %s, and its health timeout is %s: %s", after.Name, unhealthy,
			c.HealthTimeout, after.Status.LastOperation.Description)
	}
	return nil
}

// available: no deletion of a manager's leaves a deployment with fewer available
// machines than its strategy allows. Machines that were lost a short time ago
// count: a manager may not know it yet.
func available(c *Checker, change apiserver.Change, w *Writer) error {
	m := going(change)
	if m == nil || w == nil || !serves(m) || c.nodeGoes(m.Labels[machinev1.NodeLabel]) {
		return nil
	}
	set := c.setOf(m)
	if set == nil {
		return nil
	}
	d := c.deploymentOf(set)
	if d == nil {
		return nil
	}
	asked, known := c.since(d.UID, w.Began)
	if !known || asked.unlimited {
		return nil
	}
	if count := c.serving(d.UID, m.UID); count < asked.least && !c.userChose(m, set, d) {
		return fmt.Errorf("Machine %s is deleted and leaves %d available of MachineDeployment %s, which allows no "+
			"fewer than %d", m.Name, count, d.Name, asked.least)
	}
	return nil
}

// serving returns how many machines of a pool are available, or were a short time ago and were lost
// then, without one of them.
func (c *Checker) serving(pool, without types.UID) int {
	counted := map[types.UID]bool{}
	for _, o := range c.machines() {
		if c.poolOf(o) == pool && serves(o) {
			counted[o.UID] = true
		}
	}
	for uid, gone := range c.left {
		if gone.pool == pool && !gone.ours && c.Now().Sub(gone.at) < c.ReactionTime {
			counted[uid] = true
		}
	}
	delete(counted, without)
	return len(counted)
}

// userChose reports whether a user decided that m goes: it has a priority of its own,
// and a scale-in is why its set has too many; or somebody else has put
// m into a set that asks for no more Machines since, or another one, and m has a priority of its own.
func (c *Checker) userChose(m *machinev1.Machine, set *machinev1.MachineSet, d *machinev1.MachineDeployment) bool {
	priority := m.Annotations[machinev1.PriorityAnnotation]
	chosen := priority != "" && priority != machinev1.DefaultPriority
	if chosen && (c.scaledIn(d.UID) || c.stillTooMany(m, set, d)) {
		return true
	}
	return slices.ContainsFunc(c.machines(), func(o *machinev1.Machine) bool {
		at, put := c.put[o.UID]
		if !put || !metav1.IsControlledBy(o, set) || o.UID != m.UID && !chosen {
			return false
		}
		asked, _ := c.since(set.UID, at)
		return asked.most <= int(set.Spec.Replicas)
	})
}

// scaledIn reports whether the last change of what is asked for made it less.
func (c *Checker) scaledIn(uid types.UID) bool {
	all := c.wanted[uid]
	return len(all) > 1 && all[len(all)-1].most < all[len(all)-2].most
}

// stillTooMany reports whether a scale-in, after which the deployment was scaled out by less, is why m is too
// many: no rollout is under way, and the set has made no Machine since that scale-in.
func (c *Checker) stillTooMany(m *machinev1.Machine, set *machinev1.MachineSet, d *machinev1.MachineDeployment) bool {
	newest, others := m.CreationTimestamp.Time, 0
	for _, o := range c.machines() {
		if o.UID == m.UID || c.poolOf(o) != d.UID || !active(o) {
			continue
		}
		if !metav1.IsControlledBy(o, set) {
			return false
		}
		others++
		if at := o.CreationTimestamp.Time; at.After(newest) {
			newest = at
		}
	}
	if others < int(d.Spec.Replicas) {
		return false
	}
	all := c.wanted[d.UID]
	for i := 1; i < len(all); i++ {
		if all[i].most < all[i-1].most && all[i].at.After(newest) {
			return true
		}
	}
	return false
}
