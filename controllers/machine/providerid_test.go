package machine

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// annotate sets an annotation of a machine, or removes it for an empty value.
func (w *env) annotate(name, key, value string) {
	w.Helper()
	m := w.machine(name)
	if value == "" {
		delete(m.Annotations, key)
	} else {
		machinev1.SetAnnotation(m, key, value)
	}
	if err := w.client.Update(w.Context(), m); err != nil {
		w.Fatal(err)
	}
}

// nodesForm is MCM's form of a VM's providerID, in the words of the Node: with
// the zone instead of the region.
func nodesForm(mcms string) string { return strings.Replace(mcms, "/sim-1/", "/sim-1a/", 1) }

func TestProviderIDTakesTheFormOfTheNodeAndGoesBack(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	before := w.machine("m").Spec.ProviderID
	node := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.ProviderID = nodesForm(before)
	if err := w.client.Update(t.Context(), node); err != nil || node.Spec.ProviderID == before {
		t.Fatalf("both forms are %s, %v: the test proves nothing", before, err)
	}
	w.annotate("m", machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	w.settle("m", func() bool { return w.machine("m").Spec.ProviderID == node.Spec.ProviderID })

	w.annotate("m", machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormMCM)
	w.settle("m", func() bool { return w.machine("m").Spec.ProviderID == before })
	if got, ok := w.machine("m").Annotations[machinev1.ProviderIDFormAnnotation]; ok {
		t.Errorf("annotation is still %q: nobody could tell that MCM may take over", got)
	}
	if made, live := w.vms(); made != 1 || live != 1 {
		t.Errorf("%d VMs made, %d live: changing a form must not touch the VM", made, live)
	}
}

func TestAnotherVMsNodeGivesNoProviderID(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.running("m")
	before := w.machine("m").Spec.ProviderID
	node := &corev1.Node{}
	if err := w.client.Get(t.Context(), client.ObjectKey{Name: "m"}, node); err != nil {
		t.Fatal(err)
	}
	node.Spec.ProviderID = nodesForm(before) + "0"
	if err := w.client.Update(t.Context(), node); err != nil {
		t.Fatal(err)
	}
	w.annotate("m", machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	for range 5 {
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.machine("m").Spec.ProviderID; got != before {
		t.Errorf("providerID %s was copied from the node of another VM", got)
	}
}

func TestNewMachineIsBornWithTheFormOfTheNode(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	m := newMachine("m", w.clock.Now())
	machinev1.SetAnnotation(m, machinev1.ProviderIDFormAnnotation, machinev1.ProviderIDFormNode)
	w.create(m)
	w.settle("m", func() bool { return w.machine("m").Spec.ProviderID != "" })
	if got := w.machine("m").Spec.ProviderID; !strings.Contains(got, "/sim-1a/") {
		t.Errorf("providerID %s: the autoscaler would wait for another node, and reap this machine", got)
	}
}
