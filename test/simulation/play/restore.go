package play

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// grow has a user ask for more machines than the collector of orphans may remove.
func (w *World) grow(e Event) {
	replicas := int32(5 + e.N>>4%4)
	w.editPool(e, func(d *machinev1.MachineDeployment) { d.Spec.Replicas = replicas })
	w.editWorkers(e, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(replicas) })
}

// restore has a user restore a backup of a management cluster, of the cluster with the
// nodes, or of both: their API servers are down for minutes, and then know what they knew a
// while ago. The cloud and the kubelets go on. No user restores a management cluster to
// before a move: the Cluster would live twice.
func (w *World) restore(e Event) {
	at := w.homes[int(e.N>>1)%len(w.homes)].server
	servers := []*model.Server{at}
	switch {
	case w.Target == w.Control:
	case e.N>>3%3 == 0:
		servers = []*model.Server{w.Target}
	case e.N>>3%3 == 1:
		servers = append(servers, w.Target)
	}
	to := w.now.Add(-e.For)
	if to.Before(epoch()) {
		to = epoch()
	}
	if w.moving || w.lastMove.After(to) {
		w.trace("no user restores to before a move")
		return
	}
	down, bump := time.Minute+time.Duration(e.N>>5%10)*time.Minute, e.N>>9%2 == 0
	w.restored = true
	for i, s := range servers {
		// Two backups are seldom of the same moment.
		w.restoreOne(s, to.Add(time.Duration(i)*e.For/4), bump)
		w.weather.down[s] = later(w.weather.down[s], w.now.Add(down))
	}
	for _, p := range slices.Clone(w.processes) {
		// One that only watches the nodes need not be restarted where revisions go on.
		mustRestart := slices.Contains(servers, p.home.server) || !bump || e.N>>10%2 == 0
		if !p.isCommand() && mustRestart {
			w.crash(p, "an API server is restored")
			w.again(p, down+w.between(0, 40*time.Second))
		}
	}
	w.reconnect(min(down, probing))
	w.after(down+time.Millisecond, func() { w.awake(servers) })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// restoreOne restores one API server.
func (w *World) restoreOne(s *model.Server, to time.Time, bump bool) {
	w.trace("an API server is restored to %s, bumped %v", to.Format(time.TimeOnly), bump)
	version := s.Version()
	lost := w.check.Restored(s, func() { s.Restore(to) })
	if bump {
		s.Bump(version)
	}
	for _, m := range lost {
		w.gone[machinev1.OwnerID(m)] = m
	}
	if s == w.Target {
		for _, k := range w.sortedKubelets() {
			w.takeStock(k)
		}
	}
}

// takeStock has a kubelet find out what has become of its node. One whose node is gone
// registers it again when somebody has restarted it.
func (w *World) takeStock(k *kubelet) {
	node, ok := w.Target.KindOf(&corev1.Node{}).Look(nodeKey(k.name)).(*corev1.Node)
	switch {
	case ok && node.Spec.ProviderID == w.providerID(k):
		k.joined, k.certified, k.shown = true, true, readyOf(node)
		if k.gone {
			w.after(w.between(heartbeat, 2*heartbeat), func() { w.bury(k) })
		}
		w.nodeOf(k)
	case k.joined:
		k.joined = false
		w.after(w.between(time.Minute, 15*time.Minute), func() { w.join(k) })
	}
}

func readyOf(n *corev1.Node) corev1.ConditionStatus {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

// awake has those go on who work for API servers that are there again.
func (w *World) awake(servers []*model.Server) {
	w.reconnect(w.between(0, connecting))
	for _, h := range w.homes {
		if h.core != nil && slices.Contains(servers, h.server) {
			clear(h.core.drained)
			clear(h.core.unwell)
			h.core.wake()
		}
	}
	if slices.Contains(servers, w.Target) {
		w.resumePods()
	}
	w.collectSoon()
	w.after(w.between(time.Minute, 10*time.Minute), w.decideOnOrphans)
	w.after(w.between(10*time.Minute, time.Hour), w.approveKept) // a restore may have lost that
}

// resumePods has kubelets and those who own pods look at all of them.
func (w *World) resumePods() {
	nodes := map[string]bool{}
	for _, p := range all[*corev1.Pod](w.Target) {
		nodes[p.Spec.NodeName] = true
		if !p.DeletionTimestamp.IsZero() {
			w.after(time.Second, func() { w.end(p) })
		}
	}
	for _, name := range slices.Sorted(maps.Keys(nodes)) {
		w.orphanPods(name)
	}
	w.place()
}

// heldOrphans are the IDs of the VMs that wait for a person's decision.
func heldOrphans(class *machinev1.MachineClass) []string {
	var ids []string
	for _, key := range []string{machinev1.HeldOrphansAnnotation, machinev1.HeldClusterAPIOrphansAnnotation} {
		var held machinev1.HeldOrphans
		if json.Unmarshal([]byte(class.Annotations[key]), &held) != nil {
			continue
		}
		for _, o := range held.Orphans {
			ids = append(ids, o.ID)
		}
	}
	return ids
}

// decideOnOrphans has a person look at the orphans that are held. Those of worlds without a
// restore are truly orphans by then, and approved. After a restore the person may also
// create the Machines again, as kubectl mcm recover does, or keep the VMs for a while.
func (w *World) decideOnOrphans() {
	for _, h := range w.homes {
		for _, class := range all[*machinev1.MachineClass](h.server) {
			ids := heldOrphans(class)
			switch {
			case len(ids) == 0:
			case w.isDown(h.server):
				w.after(time.Minute, w.decideOnOrphans)
			case w.restored && w.chance(0.25):
				w.decide(h, class, machinev1.KeptOrphansAnnotation, ids)
				w.after(w.between(10*time.Minute, time.Hour), w.approveKept)
			case w.restored && w.chance(0.4) && w.recover(h, ids) > 0:
				w.after(30*time.Minute, w.decideOnOrphans) // about the others
			default:
				w.decide(h, class, machinev1.ApprovedOrphansAnnotation, ids)
			}
		}
	}
}

// approveKept has a person approve the orphans that were kept, as soon as that is possible.
func (w *World) approveKept() {
	for _, h := range w.homes {
		if w.isDown(h.server) {
			w.after(time.Minute, w.approveKept)
			return
		}
		for _, class := range all[*machinev1.MachineClass](h.server) {
			if ids := machinev1.OrphanIDs(class.Annotations[machinev1.KeptOrphansAnnotation]); len(ids) > 0 {
				w.decide(h, class, machinev1.ApprovedOrphansAnnotation, ids)
			}
		}
	}
}

// decide adds what a person has decided about orphans to a class.
func (w *World) decide(h *home, class *machinev1.MachineClass, annotation string, ids []string) {
	w.trace("user decides about %v of %s: %s", ids, class.Name, annotation)
	edit(w, h.server, client.ObjectKeyFromObject(class), func(c *machinev1.MachineClass) {
		already := machinev1.OrphanIDs(c.Annotations[annotation])
		ids := slices.Sorted(slices.Values(append(already, ids...)))
		annotate(c, annotation, strings.Join(slices.Compact(ids), ","))
	})
}

// recover creates the Machines of VMs again that a restore does not know, where their sets
// exist and their names are free. It returns how many.
func (w *World) recover(h *home, ids []string) int {
	made := 0
	for _, r := range w.Cloud.VMs() {
		m := w.gone[r.Tags[machinev1.OwnerIDAnnotation]]
		if m == nil || !slices.Contains(ids, r.ID) || h.server != w.Control {
			continue
		}
		set := metav1.GetControllerOf(m)
		if set == nil {
			continue
		}
		owner, known := find[*machinev1.MachineSet](w.Control, set.Name)
		if _, taken := find[*machinev1.Machine](w.Control, m.Name); taken || !known || owner.UID != set.UID {
			continue
		}
		again := m.DeepCopy()
		again.ResourceVersion, again.UID, again.CreationTimestamp = "", "", metav1.Time{}
		again.Status = machinev1.MachineStatus{}
		w.trace("user recovers Machine %s", m.Name)
		w.createAt(w.Control, again)
		made++
	}
	return made
}
