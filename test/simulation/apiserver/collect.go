package apiserver

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Collector is the name under which Collect deletes.
const Collector = "garbage collector"

// Collect does one round of garbage collection: it deletes what has owners none
// of which exists any more. It returns how many objects it has changed.
func (s *Server) Collect() int {
	alive := map[types.UID]bool{}
	for _, k := range s.kinds {
		for _, e := range k.stored {
			alive[e.object.GetUID()] = true
		}
	}
	changed := 0
	for _, k := range s.kinds {
		for _, o := range k.All() {
			if s.collect(k, o, alive) {
				changed++
			}
		}
	}
	return changed
}

func (s *Server) collect(k *Kind, o client.Object, alive map[types.UID]bool) bool {
	owners := o.GetOwnerReferences()
	if len(owners) == 0 || !o.GetDeletionTimestamp().IsZero() {
		return false
	}
	if slices.ContainsFunc(owners, func(r metav1.OwnerReference) bool { return alive[r.UID] }) {
		return false
	}
	uid := o.GetUID()
	return s.Delete(Collector, k, client.ObjectKeyFromObject(o),
		&metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}) == nil
}
