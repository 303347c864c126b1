package mcmcluster

import (
	"strings"
	"testing"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/carried"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// TestNothingThatAnMCMClusterLosesLetsItGo takes each annotation that docs/annotations.md lists, the
// finalizers and the status away from an MCMCluster, alone and all together: it has finalizer and
// owner id again, and waits for its machines.
func TestNothingThatAnMCMClusterLosesLetsItGo(t *testing.T) {
	t.Parallel()
	strips := map[string]func(*infrav1.MCMCluster){
		"annotations": func(o *infrav1.MCMCluster) { o.Annotations = nil },
		"status":      func(o *infrav1.MCMCluster) { o.Status = infrav1.MCMClusterStatus{} },
		"finalizers":  func(o *infrav1.MCMCluster) { o.Finalizers = nil },
		"everything": func(o *infrav1.MCMCluster) {
			o.Annotations, o.Finalizers, o.Status = nil, nil, infrav1.MCMClusterStatus{}
		},
	}
	for _, name := range carried.Names(t, "MCMCluster") {
		strips[name] = func(o *infrav1.MCMCluster) { delete(o.Annotations, name) }
	}
	for what, strip := range strips {
		t.Run(strings.TrimPrefix(what, machinev1.OurPrefix), func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, object(), cluster(), template("t1", "c1", "c1"), classIn("c1", "a", "b"), machine("m", "c1"))
			w.run()
			was := w.get()
			harness.Edit(w.harness.Cluster, w.get(), strip)
			w.run()
			is := w.get()
			if is.Annotations[machinev1.OwnerIDAnnotation] != was.Annotations[machinev1.OwnerIDAnnotation] ||
				len(is.Finalizers) != 1 || *is.Status.Initialization.Provisioned != true {
				t.Fatalf("it was %+v and is %+v", was, is)
			}
			harness.Edit(w.harness.Cluster, w.get(), func(o *infrav1.MCMCluster) {
				finalizers := o.Finalizers
				strip(o)
				o.Finalizers = finalizers
			})
			w.harness.Delete(w.get())
			if wait := w.run(); wait <= 0 || w.get() == nil {
				t.Errorf("it goes before its machine, wait %s", wait)
			}
			w.harness.Delete(machine("m", "c1"))
			w.run()
			if w.get() != nil {
				t.Errorf("it stays without machines: %+v", w.get().Status.Conditions)
			}
		})
	}
}
