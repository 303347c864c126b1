package play

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/invariant"
)

// incidentFaults are those that come only in incidents, besides the others.
func incidentFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		"copy by hand":     (*World).copyByHand,
		"slow requests":    func(w *World, e Event) { w.weather.slow = w.now.Add(e.For) },
		"look for orphans": func(w *World, e Event) { w.lookForOrphans(fmt.Sprint(e.N)) },
		"rezone":           (*World).rezone,
		"grow":             (*World).grow,
		"restore":          (*World).restore,
		"disk full":        func(w *World, e Event) { w.weather.full[w.pickServer(e)] = w.now.Add(e.For) },
		"no joins":         func(w *World, e Event) { w.weather.unjoinable = w.now.Add(e.For) },
		"late request":     func(w *World, e Event) { w.weather.astray = w.now.Add(e.For) },
		"other account":    (*World).exchangeCredentials,
		"strip":            (*World).strip,
		"resume rollouts":  func(w *World, _ Event) { w.resumeRollouts() },
	}
}

// nativeFaults are what a user of the native API does.
func nativeFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		"scale":             (*World).scale,
		"roll":              (*World).roll,
		"pause":             (*World).pause,
		"node template":     (*World).nodeTemplate,
		"delete machine":    (*World).deleteMachine,
		"force deletion":    (*World).forceDeletion,
		"relabel":           (*World).relabel,
		"priority":          (*World).priority,
		"delete deployment": (*World).deleteDeployment,
		"strategy":          (*World).strategy,
	}
}

func nodeKey(name string) types.NamespacedName { return types.NamespacedName{Name: name} }

// edit changes an object in the name of the user, if there is one.
func edit[T client.Object](w *World, s *model.Server, key types.NamespacedName, change func(T)) {
	editAs(w, user, s, key, change)
}

// editAs changes an object in somebody's name, if there is one.
func editAs[T client.Object](w *World, who string, s *model.Server, key types.NamespacedName, change func(T)) {
	var none T
	stored, ok := s.KindOf(none).Look(key).(T)
	if !ok || w.isDown(s) {
		return
	}
	changed := stored.DeepCopyObject().(T)
	change(changed)
	if _, err := s.Update(who, changed, false); err != nil {
		w.trace("%s: %v", who, err)
	}
}

func (w *World) editPool(e Event, change func(*machinev1.MachineDeployment)) {
	if len(w.plan.Pools) == 0 {
		return
	}
	key := types.NamespacedName{Namespace: namespace, Name: poolName(int(e.N) % len(w.plan.Pools))}
	edit(w, w.Control, key, change)
}

func (w *World) scale(e Event) {
	w.editPool(e, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = int32(e.N >> 4 % 6) })
}

func (w *World) roll(e Event) {
	w.editPool(e, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.Class.Name = className(int(e.N >> 4 % classes))
	})
}

func (w *World) pause(e Event) {
	w.editPool(e, func(d *machinev1.MachineDeployment) { d.Spec.Paused = true })
	w.after(e.For, func() { w.editPool(e, func(d *machinev1.MachineDeployment) { d.Spec.Paused = false }) })
}

func (w *World) nodeTemplate(e Event) {
	w.editPool(e, func(d *machinev1.MachineDeployment) {
		d.Spec.Template.Spec.NodeTemplateSpec.Labels = map[string]string{"pool": fmt.Sprint(e.N >> 4 % 3)}
	})
}

func (w *World) strategy(e Event) {
	w.editPool(e, func(d *machinev1.MachineDeployment) {
		if r := d.Spec.Strategy.RollingUpdate; r != nil {
			r.MaxSurge, r.MaxUnavailable = new(
				intstr.FromInt32(int32(1+e.N>>4%2))), new(intstr.FromInt32(int32(e.N>>8%2)))
		}
	})
}

// resumeRollouts resumes what the managers have paused because machines did not join.
func (w *World) resumeRollouts() {
	for _, o := range w.Control.KindOf(&machinev1.MachineDeployment{}).All() {
		if o.GetAnnotations()[machinev1.RolloutPausedAnnotation] == "" {
			continue
		}
		edit(w, w.Control, client.ObjectKeyFromObject(o), func(d *machinev1.MachineDeployment) {
			delete(d.Annotations, machinev1.RolloutPausedAnnotation)
		})
	}
}

// kept are the annotations that ask for something, and those of commands that are under way.
func kept(key string) bool {
	switch key {
	case machinev1.RetainVMAnnotation, machinev1.ReleaseAnnotation, machinev1.HoldAnnotation,
		machinev1.MigrationHoldAnnotation, machinev1.MigrationHeldAnnotation, machinev1.MigrationHeldSinceAnnotation,
		machinev1.MigratedFromAnnotation, clusterv1.PausedAnnotation, clusterctlv1.DeleteForMoveAnnotation,
		machinev1.ProviderIDFormAnnotation:
		return true
	}
	return false
}

// strip has a tool that applies manifests remove annotations that are in none of them: one of
// this project's from an object, or all that the object has.
func (w *World) strip(e Event) {
	var all []client.Object
	var servers []*model.Server
	see := func(s *model.Server, kinds ...client.Object) {
		for _, kind := range kinds {
			for _, o := range s.KindOf(kind).All() {
				all, servers = append(all, o), append(servers, s)
			}
		}
	}
	if len(w.plan.Pools) > 0 {
		see(w.Control, &machinev1.Machine{}, &machinev1.MachineSet{})
	}
	if h := w.clusterHome(); h != nil {
		see(h.server, &infrav1.MCMMachine{})
	}
	if len(all) == 0 {
		return
	}
	at := int(e.N>>4) % len(all)
	stored, server := all[at], servers[at]
	var ours []string
	for _, key := range slices.Sorted(maps.Keys(stored.GetAnnotations())) {
		if strings.HasPrefix(key, machinev1.OurPrefix) && !kept(key) {
			ours = append(ours, key)
		}
	}
	if len(ours) == 0 || w.isDown(server) {
		return
	}
	changed := stored.DeepCopyObject().(client.Object)
	left := changed.GetAnnotations()
	if e.N%2 == 0 {
		maps.DeleteFunc(left, func(key, _ string) bool { return !kept(key) })
	} else {
		delete(left, ours[int(e.N>>16)%len(ours)])
	}
	changed.SetAnnotations(left)
	w.trace("%T %s keeps annotations %v", stored, stored.GetName(), slices.Sorted(maps.Keys(left)))
	if _, err := server.Update(user, changed, false); err != nil {
		w.trace("strip: %v", err)
	}
}

// resumeSoon has a user look for paused rollouts from now on, and resume them.
func (w *World) resumeSoon() {
	const often = 15 * time.Minute
	if w.plan.PauseFailing {
		w.resumeRollouts()
		w.after(often, w.resumeSoon)
	}
}

// anyWithoutSet reports whether a Machine belongs to no MachineSet. It has no other class to fall back
// to, so that it asks for an exhausted one for ever.
func (w *World) anyWithoutSet() bool {
	return slices.ContainsFunc(w.Control.KindOf(&machinev1.Machine{}).All(), func(o client.Object) bool {
		return metav1.GetControllerOf(o) == nil
	})
}

// machine chooses one of the Machines; nil if there is none.
func (w *World) machine(e Event) *machinev1.Machine {
	all := w.Control.KindOf(&machinev1.Machine{}).All()
	if len(all) == 0 {
		return nil
	}
	return all[int(e.N>>4)%len(all)].(*machinev1.Machine)
}

func (w *World) editMachine(e Event, change func(*machinev1.Machine)) {
	if m := w.machine(e); m != nil {
		edit(w, w.Control, client.ObjectKeyFromObject(m), change)
	}
}

func (w *World) deleteMachine(e Event) {
	if m := w.machine(e); m != nil && !w.isDown(w.Control) {
		w.trace("user deletes %s", m.Name)
		_ = w.Control.Delete(user, w.Control.KindOf(m), client.ObjectKeyFromObject(m), &metav1.DeleteOptions{})
	}
}

func (w *World) forceDeletion(e Event) {
	w.editMachine(e, func(m *machinev1.Machine) {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[machinev1.ForceDeletionLabel] = "True"
	})
	w.deleteMachine(e)
}

func (w *World) deleteNode(e Event) {
	nodes := w.Target.KindOf(&corev1.Node{})
	if all := nodes.All(); len(all) > 0 && !w.isDown(w.Target) {
		w.trace("user deletes node %s", all[int(e.N)%len(all)].GetName())
		_ = w.Target.Delete(user, nodes, client.ObjectKeyFromObject(all[int(e.N)%len(all)]), &metav1.DeleteOptions{})
	}
}

// relabel takes a machine out of its set, or puts one back.
func (w *World) relabel(e Event) {
	w.editMachine(e, func(m *machinev1.Machine) {
		if m.Labels[machinev1.NameLabel] != "" {
			delete(m.Labels, machinev1.NameLabel)
			return
		}
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels[machinev1.NameLabel] = poolName(0)
	})
}

func (w *World) priority(e Event) {
	w.editMachine(e, func(m *machinev1.Machine) {
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[machinev1.PriorityAnnotation] = fmt.Sprint(1 + e.N>>6%3)
	})
}

// deleteDeployment deletes a deployment and later recreates it.
func (w *World) deleteDeployment(e Event) {
	i := int(e.N) % len(w.plan.Pools)
	key := types.NamespacedName{Namespace: namespace, Name: poolName(i)}
	k := w.Control.KindOf(&machinev1.MachineDeployment{})
	if w.isDown(w.Control) || k.Look(key) == nil {
		return
	}
	_ = w.Control.Delete(user, k, key, &metav1.DeleteOptions{})
	if e.N>>5%2 == 0 {
		w.after(e.For, func() { w.recreate(i) })
	}
}

// recreate makes a deployment as soon as the old one is gone.
func (w *World) recreate(i int) {
	key := types.NamespacedName{Namespace: namespace, Name: poolName(i)}
	if w.isDown(w.Control) || w.Control.KindOf(&machinev1.MachineDeployment{}).Look(key) != nil {
		if !w.healing {
			w.after(time.Minute, func() { w.recreate(i) })
		}
		return
	}
	w.create(w.deploymentOf(i))
}

func (w *World) breakClass(e Event) {
	i := int(e.N) % classes
	key := types.NamespacedName{Namespace: namespace, Name: className(i)}
	edit(w, w.classHome(key.Name), key, func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = w.specOf(i, "no-such-image")
	})
	w.after(e.For, func() { w.repairClass(i) })
}

func (w *World) repairClass(i int) {
	key := types.NamespacedName{Namespace: namespace, Name: className(i)}
	edit(w, w.classHome(key.Name), key, func(c *machinev1.MachineClass) { c.ProviderSpec.Raw = w.specOf(i, "linux-1") })
}

func (w *World) breakSecret(e Event) {
	key := client.ObjectKeyFromObject(secretOf())
	for _, h := range w.homes {
		edit(w, h.server, key, func(s *corev1.Secret) { s.Data["secretKey"] = []byte("wrong") })
	}
	w.after(e.For, w.repairSecret)
}

// exchangeCredentials gives the classes valid credentials of another account: there no VM of a machine
// exists, and none of them may count as gone. It happens only while all VMs that were asked for are
// on record, and each class has some: a manager that is killed between a native Machine's request and its
// record has none, and one that is killed between a refusal in the other account and the record of that
// leaves the first machine of a class to a person.
func (w *World) exchangeCredentials(e Event) {
	if missing := w.withoutAccount(); missing != "" {
		w.trace("not now: %s has no record of its account", missing)
		return
	}
	w.Cloud.Change(func(s *sim.Settings) {
		if len(s.Accounts) == 1 {
			s.Accounts = append(s.Accounts, sim.Tenant{ID: invariant.OtherAccount, SecretKeys: []string{secretKey}})
		}
	})
	w.closeOtherAccount()
	for _, h := range w.homes {
		edit(w, h.server, client.ObjectKeyFromObject(secretOf()), func(s *corev1.Secret) {
			s.Data["accountID"] = []byte(invariant.OtherAccount)
		})
	}
	w.after(e.For, w.repairSecret)
}

// closeOtherAccount keeps VMs from being made in the other account, for good: a manager may see for a while after
// the classes have their credentials back what it saw before.
func (w *World) closeOtherAccount() {
	w.Cloud.AddFault(sim.Fault{Op: sim.OpCreateVM, Account: invariant.OtherAccount, Code: sim.CodeAccessDenied})
}

// withoutAccount is a machine with no record of the account that its VM may be in, or a class without any
// machine that has one; empty if there is none.
func (w *World) withoutAccount() string {
	recorded := map[string]bool{}
	see := func(o client.Object, class, providerID string) bool {
		recorded[class] = recorded[class] || providerID != "" && o.GetAnnotations()[machinev1.CloudScopeAnnotation] != ""
		return o.GetAnnotations()[machinev1.CloudScopeAnnotation] != ""
	}
	for _, m := range all[*machinev1.Machine](w.Control) {
		if !see(m, m.Spec.Class.Name, m.Spec.ProviderID) {
			return "Machine " + m.Name
		}
	}
	for _, h := range w.homes {
		for _, m := range all[*infrav1.MCMMachine](h.server) {
			if !see(m, m.Annotations[infrav1.MadeFromAnnotation], m.Spec.ProviderID) {
				return "MCMMachine " + m.Name
			}
		}
	}
	for _, pool := range slices.Concat(w.plan.Pools, w.plan.Workers) {
		if name := className(pool.Class); !recorded[name] {
			return "MachineClass " + name
		}
	}
	return ""
}

func (w *World) repairSecret() {
	for _, h := range w.homes {
		edit(w, h.server, client.ObjectKeyFromObject(secretOf()), func(s *corev1.Secret) { s.Data = secretOf().Data })
	}
}

// repair undoes by hand what the user has broken.
func (w *World) repair() {
	w.repairSecret()
	w.repairClusterAPI()
	for i := range classes {
		w.repairClass(i)
	}
	for i := range w.plan.Pools {
		key := types.NamespacedName{Namespace: namespace, Name: poolName(i)}
		edit(w, w.Control, key, func(d *machinev1.MachineDeployment) { d.Spec.Paused = false })
	}
	w.leaveOtherAccount()
}

// leaveOtherAccount takes the other account off machines that have asked for a VM there and got no answer, as one
// does who has looked there: nothing else can tell that there is none.
func (w *World) leaveOtherAccount() {
	leave := func(s *model.Server, o client.Object, providerID string) {
		if providerID != "" || !strings.Contains(o.GetAnnotations()[machinev1.CloudScopeAnnotation],
			"account "+invariant.OtherAccount) {
			return
		}
		changed := o.DeepCopyObject().(client.Object)
		delete(changed.GetAnnotations(), machinev1.CloudScopeAnnotation)
		if _, err := s.Update(user, changed, false); err != nil {
			w.trace("%s: %v", user, err)
		}
	}
	if len(w.plan.Pools) > 0 {
		for _, o := range w.Control.KindOf(&machinev1.Machine{}).All() {
			leave(w.Control, o, o.(*machinev1.Machine).Spec.ProviderID)
		}
	}
	if h := w.clusterHome(); h != nil {
		for _, o := range h.server.KindOf(&infrav1.MCMMachine{}).All() {
			leave(h.server, o, o.(*infrav1.MCMMachine).Spec.ProviderID)
		}
	}
}

// hasty waits for the next VM, whose making is mostly not answered, and then
// deletes its Machine or breaks its class, before the cloud shows it.
func (w *World) hasty(e Event) {
	if e.N%4 != 0 {
		w.after(e.For+time.Minute, w.Cloud.AddFault(sim.Fault{
			Op: sim.OpCreateVM, Mode: sim.FaultLost, Count: 1, Account: account, // in the other one nothing may be made
		}))
	}
	w.ambush = append(w.ambush, func(name string) {
		w.after(w.between(0, 2*time.Second), func() {
			class := ""
			h, o := w.homes[0], client.Object(nil)
			if m, found := find[*machinev1.Machine](w.Control, name); found {
				class, o = m.Spec.Class.Name, m
			} else if at := w.clusterHome(); at != nil {
				if m, found := find[*infrav1.MCMMachine](at.server, name); found {
					h, class, o = at, m.Spec.MachineClassRef.Name, m
				}
			}
			switch {
			case o == nil || w.isDown(h.server):
			case e.N>>6%2 == 0:
				w.userDeletes(h, o)
			default:
				w.trace("user changes %s", class)
				w.changeImage(class)
			}
		})
	})
}

// changeImage gives a class the other image.
func (w *World) changeImage(name string) {
	for i := range classes {
		if className(i) == name {
			edit(w, w.classHome(name), types.NamespacedName{Namespace: namespace, Name: name}, func(c *machinev1.MachineClass) {
				c.ProviderSpec.Raw = w.specOf(i, "linux-2")
			})
		}
	}
}

// spring has those act who wait for a new VM.
func (w *World) spring(name string) {
	waiting := w.ambush
	w.ambush = nil
	for _, act := range waiting {
		act(name)
	}
}

// copyByHand has a user take a Machine or an MCMMachine that has a VM out of the API
// server, finalizers first, and create it again a little later from a copy, as one
// does who restores single objects from a backup. Its VM runs on meanwhile. This
// happens once to a machine: what is away twice looks like an orphan in between.
func (w *World) copyByHand(e Event) {
	h, o := w.copyable(e)
	if o == nil || w.isDown(h.server) || w.wasCopied[machinev1.OwnerID(o)] {
		return
	}
	w.wasCopied[machinev1.OwnerID(o)] = true
	k, key := h.server.KindOf(o), client.ObjectKeyFromObject(o)
	patch := model.Patch{Type: types.MergePatchType, Data: []byte(`{"metadata":{"finalizers":null}}`)}
	if _, err := h.server.Patch(user, k, key, patch, false); err != nil {
		w.trace("user: %v", err)
		return
	}
	w.userDeletes(h, o)
	w.away++
	w.after(e.For, func() { w.putBack(h, o) })
}

// copyable chooses a machine that has a VM and stays; nil if there is none.
func (w *World) copyable(e Event) (*home, client.Object) {
	if m := w.machine(e); m != nil && (e.N%2 == 0 || len(w.plan.Workers) == 0) {
		if m.Spec.ProviderID == "" || !m.DeletionTimestamp.IsZero() {
			return nil, nil
		}
		return w.homes[0], m
	}
	h, m := w.mcmMachine(e)
	if m == nil || m.Spec.ProviderID == "" || !m.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	if infra, found := find[*infrav1.MCMCluster](h.server, clusterName); !found || !infra.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return h, m
}

// putBack creates an object again that was taken away, as soon as that is possible.
func (w *World) putBack(h *home, o client.Object) {
	if w.isDown(h.server) {
		w.after(retryPeriod, func() { w.putBack(h, o) })
		return
	}
	again := o.DeepCopyObject().(client.Object)
	again.SetResourceVersion("")
	again.SetUID("")
	again.SetCreationTimestamp(metav1.Time{})
	w.trace("user creates %T %s again", o, o.GetName())
	w.createAt(h.server, again)
	w.away--
}
