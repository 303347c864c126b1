package play

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
)

// clusterAPIFaults are what a user of Cluster API does.
func clusterAPIFaults() map[string]func(*World, Event) {
	return map[string]func(*World, Event){
		"scale workers":     (*World).scaleWorkers,
		"roll workers":      (*World).rollWorkers,
		"pause cluster":     (*World).pauseCluster,
		"delete worker":     (*World).deleteWorker,
		"delete MCMMachine": (*World).deleteMCMMachine,
		"pause MCMMachine":  (*World).pauseMCMMachine,
		"retain":            (*World).retain,
		"delete cluster":    (*World).deleteCluster,
		"move":              (*World).move,
		"adopt":             (*World).adopt,
		"look for orphans":  func(w *World, e Event) { w.lookForOrphans(fmt.Sprint(e.N)) },
	}
}

func (w *World) editWorkers(e Event, change func(*clusterv1.MachineDeployment)) {
	if h := w.clusterHome(); h != nil && len(w.plan.Workers) > 0 {
		edit(w, h.server, types.NamespacedName{Namespace: namespace, Name: workersName(int(e.N) % len(w.plan.Workers))},
			change)
	}
}

func (w *World) scaleWorkers(e Event) {
	w.editWorkers(e, func(d *clusterv1.MachineDeployment) {
		d.Spec.Replicas = new(int32(e.N >> 4 % 5))
	})
}

func (w *World) rollWorkers(e Event) {
	name := className(int(e.N >> 4 % classes))
	// Only templates that are in use move with the Cluster; the others are recreated.
	if h := w.clusterHome(); h != nil {
		if _, found := find[*infrav1.MCMMachineTemplate](h.server, name); !found {
			w.createAt(h.server, w.machineTemplate(name))
		}
	}
	w.editWorkers(e, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Spec.InfrastructureRef.Name = name })
}

// pauseCluster pauses the Cluster for a while.
func (w *World) pauseCluster(e Event) {
	h := w.clusterHome()
	if h == nil {
		return
	}
	set := func(on bool) {
		if w.clusterHome() != nil {
			edit(w, h.server, clusterKey(), func(c *clusterv1.Cluster) { c.Spec.Paused = &on })
		}
	}
	set(true)
	w.after(e.For, func() { set(false) })
}

// worker chooses a Machine of Cluster API; nil if there is none.
func (w *World) worker(e Event) (*home, *clusterv1.Machine) {
	h := w.clusterHome()
	if h == nil {
		return nil, nil
	}
	found := all[*clusterv1.Machine](h.server)
	if len(found) == 0 {
		return nil, nil
	}
	return h, found[int(e.N>>4)%len(found)]
}

func (w *World) userDeletes(h *home, o client.Object) {
	w.trace("user deletes %T %s", o, o.GetName())
	_ = h.server.Delete(user, h.server.KindOf(o), client.ObjectKeyFromObject(o), &metav1.DeleteOptions{})
}

func (w *World) deleteWorker(e Event) {
	if h, m := w.worker(e); m != nil {
		w.userDeletes(h, m)
	}
}

// mcmMachine is the MCMMachine of one of the Machines; nil if there is none.
func (w *World) mcmMachine(e Event) (*home, *infrav1.MCMMachine) {
	h, m := w.worker(e)
	if m == nil {
		return nil, nil
	}
	infra, found := find[*infrav1.MCMMachine](h.server, m.Spec.InfrastructureRef.Name)
	if !found {
		return nil, nil
	}
	return h, infra
}

func (w *World) deleteMCMMachine(e Event) {
	if h, m := w.mcmMachine(e); m != nil {
		w.userDeletes(h, m)
	}
}

func annotate(o client.Object, key, value string) {
	notes := o.GetAnnotations()
	if notes == nil {
		notes = map[string]string{}
	}
	notes[key] = value
	o.SetAnnotations(notes)
}

func (w *World) pauseMCMMachine(e Event) {
	h, m := w.mcmMachine(e)
	if m == nil {
		return
	}
	key := client.ObjectKeyFromObject(m)
	edit(w, h.server, key, func(o *infrav1.MCMMachine) { annotate(o, clusterv1.PausedAnnotation, "") })
	w.after(e.For, w.resumeMCMMachines)
}

// resumeMCMMachines ends all pauses of MCMMachines, wherever they are by now.
func (w *World) resumeMCMMachines() {
	for _, h := range w.homes {
		for _, m := range all[*infrav1.MCMMachine](h.server) {
			if paused(m) {
				edit(w, h.server, client.ObjectKeyFromObject(m), func(o *infrav1.MCMMachine) {
					delete(o.Annotations, clusterv1.PausedAnnotation)
				})
			}
		}
	}
}

// retain asks for a VM to be left, and deletes its Machine.
func (w *World) retain(e Event) {
	h, m := w.mcmMachine(e)
	if m == nil {
		return
	}
	edit(w, h.server, client.ObjectKeyFromObject(m), func(o *infrav1.MCMMachine) {
		annotate(o, machinev1.RetainVMAnnotation, "true")
	})
	w.deleteWorker(e)
}

// deleteCluster deletes the Cluster, and mostly recreates it later.
func (w *World) deleteCluster(e Event) {
	h := w.clusterHome()
	if h == nil || w.away > 0 {
		return
	}
	cluster, _ := find[*clusterv1.Cluster](h.server, clusterName)
	w.userDeletes(h, cluster)
	if e.N%4 > 0 {
		w.after(e.For, func() { w.recreateCluster(h) })
	}
}

// recreateCluster makes the Cluster as soon as nothing of the old one is left.
func (w *World) recreateCluster(h *home) {
	left := len(all[*clusterv1.Cluster](
		h.server)) + len(all[*infrav1.MCMMachineTemplate](h.server)) + len(all[*clusterv1.MachineDeployment](h.server))
	if w.isDown(h.server) || left > 0 {
		if !w.healing {
			w.after(time.Minute, func() { w.recreateCluster(h) })
		}
		return
	}
	w.populateCluster(h.server)
}

// adopt has a Machine take over a VM that somebody else has made.
func (w *World) adopt(e Event) {
	h := w.clusterHome()
	if h == nil {
		return
	}
	w.adopted++
	name := fmt.Sprintf("adopted-%d", w.adopted)
	tags := ownership()
	tags[sim.NameTag] = name
	zone := zones()[int(e.N)%len(zones())]
	vm, err := w.Cloud.CreateVM(sim.Login{Account: account, Secret: secretKey}, region, sim.VMInput{
		Zone: zone, InstanceType: "small", Image: "linux-1", Tags: tags,
	})
	if err != nil {
		w.trace("user: %v", err)
		return
	}
	if e.N>>5%2 == 0 { // it is not replaced, so it is its provider that notices
		w.after(e.For+5*time.Minute, func() { w.Cloud.Reclaim(vm.ID) })
	}
	at := metav1.ObjectMeta{Namespace: namespace, Name: name}
	infra := &infrav1.MCMMachine{ObjectMeta: at}
	infra.Spec.ProviderID, infra.Spec.MachineClassRef.Name = sim.ProviderID(zone, vm.ID), className(int(e.N>>3))
	m := &clusterv1.Machine{ObjectMeta: at}
	m.Spec.ClusterName = clusterName
	m.Spec.InfrastructureRef = refTo(infrav1.GroupVersion.Group, "MCMMachine", name)
	m.Spec.Bootstrap.DataSecretName = new(givenSecret)
	w.createAt(h.server, infra)
	w.createAt(h.server, m)
}

// lookForOrphans asks all collectors to look at once.
func (w *World) lookForOrphans(value string) {
	for _, h := range w.homes {
		for _, c := range all[*machinev1.MachineClass](h.server) {
			edit(w, h.server, client.ObjectKeyFromObject(c), func(o *machinev1.MachineClass) {
				annotate(o, machinev1.LookForOrphansAnnotation, value)
			})
		}
	}
}

// repairClusterAPI undoes what the user did to what belongs to the Cluster.
func (w *World) repairClusterAPI() {
	if len(w.plan.Workers) == 0 {
		return
	}
	w.resumeMCMMachines()
	h := w.clusterHome()
	if h == nil {
		return
	}
	edit(w, h.server, clusterKey(), func(c *clusterv1.Cluster) { c.Spec.Paused = nil })
	for i := range classes {
		if _, found := find[*machinev1.MachineClass](h.server, className(i)); !found {
			w.createAt(h.server, w.classOf(i))
		}
	}
	if _, found := find[*corev1.Secret](h.server, secretOf().Name); !found {
		w.createAt(h.server, secretOf())
	}
}
