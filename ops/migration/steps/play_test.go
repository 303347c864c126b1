package steps

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
)

// play lets every controller have a few passes.
func (w *env) play() {
	if w.playing {
		return
	}
	w.playing = true
	defer func() { w.playing = false }()
	w.acted = true
	for round := 0; round < 5 && w.acted; round++ {
		w.acted = false
		w.playCluster()
		for _, o := range w.natives() {
			w.playNative(o)
		}
		for _, o := range w.capis() {
			w.playClusterAPI(o)
		}
		w.playCollector()
	}
}

// playCluster brings a Cluster up.
func (w *env) playCluster() {
	for _, o := range objects.Pointers(get(w, &clusterv1.ClusterList{}).Items) {
		w.patchStatus(o, func(o client.Object) {
			o.(*clusterv1.Cluster).Status.Initialization = clusterv1.ClusterInitializationStatus{
				InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true),
			}
		})
	}
}

// playCollector deletes what has lost its owners, as the garbage collector does.
func (w *env) playCollector() {
	uids := map[types.UID]bool{}
	all := append(w.natives(), w.capis()...)
	for _, c := range get(w, &clusterv1.ClusterList{}).Items {
		uids[c.UID] = true
	}
	for _, o := range all {
		uids[o.GetUID()] = true
	}
	for _, o := range all {
		refs := o.GetOwnerReferences()
		if len(refs) > 0 && !slices.ContainsFunc(refs, func(r metav1.OwnerReference) bool { return uids[r.UID] }) {
			w.must(w.api.Delete(w.t.Context(), o))
		}
	}
}

// vms are the VMs that exist: one for each Node.
func (w *env) vms() []string {
	var names []string
	for _, n := range get(w, &corev1.NodeList{}).Items {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	return names
}

func (w *env) makeVM(name string) {
	w.made++
	w.must(w.api.Create(w.t.Context(), nodeFor(name)))
}

func (w *env) deleteVM(name string) {
	node := &corev1.Node{}
	if err := w.api.Get(w.t.Context(), client.ObjectKey{Name: name}, node); err != nil {
		return
	}
	w.gone = append(w.gone, name)
	node.Finalizers = nil
	w.must(w.api.Update(w.t.Context(), node))
	w.must(w.api.Delete(w.t.Context(), node))
}

// patchObject changes an object as a controller does.
func (w *env) patchObject(o client.Object, change func(client.Object)) {
	changed := o.DeepCopyObject().(client.Object)
	change(changed)
	if equality.Semantic.DeepEqual(o, changed) {
		return
	}
	w.must(w.api.Patch(w.t.Context(), changed, client.MergeFrom(o)))
}

func (w *env) patchStatus(o client.Object, change func(client.Object)) {
	changed := o.DeepCopyObject().(client.Object)
	change(changed)
	if equality.Semantic.DeepEqual(o, changed) {
		return
	}
	w.must(w.api.Status().Patch(w.t.Context(), changed, client.MergeFrom(o)))
}

// setPaused writes the condition Paused, and reports whether o is paused.
func (w *env) setPaused(o client.Object) bool {
	_, rests := o.GetAnnotations()[clusterv1.PausedAnnotation]
	status := metav1.ConditionFalse
	if rests {
		status = metav1.ConditionTrue
	}
	w.patchStatus(o, func(o client.Object) {
		set := o.(interface {
			GetConditions() []metav1.Condition
			SetConditions([]metav1.Condition)
		})
		all := slices.Clone(set.GetConditions())
		meta.SetStatusCondition(&all, metav1.Condition{Type: clusterv1.PausedCondition, Status: status, Reason: "Test"})
		set.SetConditions(all)
	})
	return rests
}

func addFinalizer(o client.Object, finalizer string) {
	if o.GetDeletionTimestamp().IsZero() && !slices.Contains(o.GetFinalizers(), finalizer) {
		o.SetFinalizers(append(slices.Clone(o.GetFinalizers()), finalizer))
	}
}
