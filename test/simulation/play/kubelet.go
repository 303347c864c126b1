package play

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// The others who write.
const (
	kubeletName   = "kubelet"
	lifecycleName = "node controller"
	cloudName     = "cloud controller"
)

// kubeletVersion is what every kubelet says of itself.
const kubeletVersion = "v1.36.3"

// How long the node controller waits for a heartbeat, and how long a kubelet
// waits before it tries again to join.
const (
	heartbeat = 40 * time.Second
	rejoin    = 15 * time.Second
)

// kubelet is the one of a VM.
type kubelet struct {
	vm, name, zone string
	token          string // what it joins with
	running        bool   // the VM runs
	never          bool   // it never joins
	joined         bool
	certified      bool // it has joined once, and needs no token any more
	sick           bool // it reports that it is not ready
	lost           bool // it reports nothing
	gone           bool // the VM is gone
	shown          corev1.ConditionStatus
}

// seen takes note of a change in the cloud.
func (w *World) seen(r sim.Resource) {
	w.check.Resource(r, w.writer)
	if r.VM == nil {
		return
	}
	k := w.kubelets[r.ID]
	if k == nil {
		k = w.newKubelet(r)
		w.kubelets[r.ID] = k
		w.spring(r.Name())
	}
	running := r.VM.State == sim.StateRunning || r.VM.State == sim.StatePending
	if running != k.running {
		k.running = running
		w.nodeOf(k)
	}
	if r.VM.State == sim.StateGone && !k.gone {
		k.gone = true
		w.after(w.between(5*time.Second, 90*time.Second), func() { w.bury(k) })
	}
}

// newKubelet boots a VM: most join soon, some late, a few never.
func (w *World) newKubelet(r sim.Resource) *kubelet {
	_, data, _ := w.Cloud.Look(r.ID)
	k := &kubelet{vm: r.ID, name: r.Name(), zone: r.Zone, token: tokenIn(string(data)), running: true}
	if k.token == "" {
		k.never = true // it was made by hand
		return k
	}
	// What a machine leaves behind that does not join in time.
	w.Cloud.Print(r.ID, "kubelet: joining with "+k.token+": dial tcp 192.0.2.1:6443: connect: no route to host")
	wait := r.VM.Running.Sub(w.now) + w.between(5*time.Second, 90*time.Second)
	switch draw := w.rng.Float64(); {
	case w.healing || w.plan.AllJoin:
	case draw < 0.03, w.weather.unjoinable.After(w.now):
		k.never = true
	case draw < 0.10:
		wait += w.between(2*time.Minute, 25*time.Minute)
	}
	if !k.never {
		w.after(wait, func() { w.join(k) })
	}
	return k
}

// tokenIn reads the bootstrap token from boot data.
func tokenIn(data string) string {
	for line := range strings.SplitSeq(data, "\n") {
		if token, found := strings.CutPrefix(line, "token: "); found {
			return token
		}
	}
	return ""
}

// join registers the node, if the token opens the cluster.
func (w *World) join(k *kubelet) {
	if !k.running || k.joined {
		return
	}
	retry := func() { w.after(rejoin, func() { w.join(k) }) }
	nodes := w.Target.KindOf(&corev1.Node{})
	if w.isDown(w.Target) || w.isCut(k.zone) || !k.certified && !w.admits(k.token) {
		if !w.healing || !w.now.After(epoch().Add(w.plan.Length+settleFor/2)) {
			retry()
		}
		return
	}
	if there, ok := nodes.Look(types.NamespacedName{Name: k.name}).(*corev1.Node); ok {
		if there.Spec.ProviderID != w.providerID(k) {
			retry()
			return
		}
		k.joined = true
		w.nodeOf(k)
		return
	}
	if _, err := w.Target.Create(kubeletName, w.newNode(k)); err != nil {
		retry()
		return
	}
	w.trace("node %s joins", k.name)
	k.joined, k.certified, k.shown = true, true, corev1.ConditionFalse
	w.after(w.between(time.Second, 20*time.Second), func() { w.nodeOf(k) })
}

func (w *World) providerID(k *kubelet) string { return sim.ProviderID(k.zone, k.vm) }

// admits reports whether a bootstrap token is one of the target cluster's.
func (w *World) admits(token string) bool {
	id, secret, _ := strings.Cut(token, ".")
	s, ok := w.Target.KindOf(&corev1.Secret{}).Look(types.NamespacedName{
		Namespace: metav1.NamespaceSystem, Name: "bootstrap-token-" + id,
	}).(*corev1.Secret)
	if !ok || string(s.Data["token-secret"]) != secret {
		return false
	}
	end, err := time.Parse(time.RFC3339, string(s.Data["expiration"]))
	return err == nil && end.After(w.now)
}

func (w *World) newNode(k *kubelet) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: k.name, Labels: map[string]string{
			corev1.LabelHostname: k.name, corev1.LabelTopologyZone: k.zone, corev1.LabelTopologyRegion: region,
		}},
		Spec: corev1.NodeSpec{ProviderID: w.providerID(k)},
		Status: corev1.NodeStatus{
			NodeInfo: corev1.NodeSystemInfo{KubeletVersion: kubeletVersion},
			Capacity: corev1.ResourceList{
				corev1.ResourceCPU:  resource.MustParse("2"),
				corev1.ResourcePods: resource.MustParse("110"),
			},
			Conditions: []corev1.NodeCondition{w.readiness(corev1.ConditionFalse, "KubeletNotReady")},
		},
	}
}

func (w *World) readiness(s corev1.ConditionStatus, reason string) corev1.NodeCondition {
	at := metav1.NewTime(w.now)
	return corev1.NodeCondition{
		Type: corev1.NodeReady, Status: s, Reason: reason, LastHeartbeatTime: at,
		LastTransitionTime: at,
	}
}

// health is what a node should show.
func (w *World) health(k *kubelet) (corev1.ConditionStatus, string) {
	switch {
	case !k.running || k.lost || w.isCut(k.zone):
		return corev1.ConditionUnknown, "NodeStatusUnknown"
	case k.sick:
		return corev1.ConditionFalse, "KubeletNotReady"
	}
	return corev1.ConditionTrue, "KubeletReady"
}

// nodeOf brings the node of a kubelet into line: the kubelet speaks at once, and
// the node controller waits before it speaks for one that is silent, also where
// the VM is gone and a finalizer keeps the node.
func (w *World) nodeOf(k *kubelet) {
	if !k.joined {
		return
	}
	wanted, _ := w.health(k)
	if wanted == k.shown {
		return
	}
	wait := time.Duration(0)
	if wanted == corev1.ConditionUnknown {
		wait = heartbeat
	}
	w.after(wait, func() { w.show(k) })
}

// show writes how a node is.
func (w *World) show(k *kubelet) {
	wanted, reason := w.health(k)
	if wanted == k.shown {
		return
	}
	if w.isDown(w.Target) {
		w.after(rejoin, func() { w.show(k) })
		return
	}
	nodes := w.Target.KindOf(&corev1.Node{})
	node, ok := nodes.Look(types.NamespacedName{Name: k.name}).(*corev1.Node)
	if !ok || node.Spec.ProviderID != w.providerID(k) {
		return
	}
	changed := node.DeepCopy()
	at := slices.IndexFunc(changed.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady
	})
	if at < 0 {
		changed.Status.Conditions = append(changed.Status.Conditions, corev1.NodeCondition{})
		at = len(changed.Status.Conditions) - 1
	}
	changed.Status.Conditions[at] = w.readiness(wanted, reason)
	by := kubeletName
	if wanted == corev1.ConditionUnknown {
		by = lifecycleName
	}
	if _, err := w.Target.Update(by, changed, true); err != nil {
		w.trace("status of node %s: %v", k.name, err)
		return
	}
	w.trace("node %s is %s", k.name, wanted)
	k.shown = wanted
	w.place()
}

// bury deletes the node of a VM that is gone, as the cloud's own controller does.
func (w *World) bury(k *kubelet) {
	if w.isDown(w.Target) {
		w.after(rejoin, func() { w.bury(k) })
		return
	}
	nodes := w.Target.KindOf(&corev1.Node{})
	key := types.NamespacedName{Name: k.name}
	node, ok := nodes.Look(key).(*corev1.Node)
	if !ok || node.Spec.ProviderID != w.providerID(k) || !node.DeletionTimestamp.IsZero() {
		return
	}
	w.trace("node %s goes with its VM", k.name)
	_ = w.Target.Delete(cloudName, nodes, key, &metav1.DeleteOptions{})
}

// sortedKubelets are all kubelets, by VM.
func (w *World) sortedKubelets() []*kubelet {
	all := make([]*kubelet, 0, len(w.kubelets))
	for _, id := range slices.Sorted(maps.Keys(w.kubelets)) {
		all = append(all, w.kubelets[id])
	}
	return all
}

// changed takes note of a change in an API server.
func (w *World) changed(c model.Change) {
	w.check.Object(c, w.writer)
	if w.writer != nil && w.check.GivesUp(c) {
		w.given++
	}
	if c.Old != nil && c.New == nil || c.New != nil && !c.New.GetDeletionTimestamp().IsZero() {
		w.collectSoon()
	}
	if len(w.plan.Workers) > 0 {
		w.wakeCores(c)
		w.wakeConnections(c)
	}
	switch o := c.Object().(type) {
	case *machinev1.Machine:
		if c.Old != nil && c.New != nil && c.Old.GetDeletionTimestamp().IsZero() && !o.DeletionTimestamp.IsZero() {
			w.placeLate(o.Labels[machinev1.NodeLabel])
		}
	case *machinev1.MachineClass:
		if c.New != nil && heldOrphans(o) != nil {
			w.after(w.between(time.Minute, 10*time.Minute), w.decideOnOrphans)
		}
	case *corev1.Pod:
		w.podChanged(o, c.New == nil)
	case *corev1.Node:
		if c.New == nil {
			w.after(w.between(time.Second, 30*time.Second), func() { w.orphanPods(o.Name) })
		}
	}
}

// collectSoon has the garbage collector run, once for all that goes meanwhile.
func (w *World) collectSoon() {
	if w.pods.collecting {
		return
	}
	w.pods.collecting = true
	w.after(w.between(100*time.Millisecond, 5*time.Second), func() {
		w.pods.collecting = false
		for _, s := range w.servers() {
			if !w.isDown(s) {
				s.Collect()
			}
		}
	})
}

// servers are the API servers, each once.
func (w *World) servers() []*model.Server {
	all := w.managementServers()
	if !slices.Contains(all, w.Target) {
		all = append(all, w.Target)
	}
	return all
}

// managementServers are those of the homes.
func (w *World) managementServers() []*model.Server {
	var all []*model.Server
	for _, h := range w.homes {
		all = append(all, h.server)
	}
	return all
}
