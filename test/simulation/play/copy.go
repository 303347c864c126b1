package play

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
)

// copyByHand has a user take a Machine or a MCMMachine that has a VM out of the API
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
