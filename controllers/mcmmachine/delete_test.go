package mcmmachine

import (
	"strings"
	"testing"
	"time"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
)

func TestDeletionIsNeverBlockedByABadSpec(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	change(w, smallClass(), func(c *machinev1.MachineClass) {
		c.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(c.ProviderSpec.Raw), `"image":"linux-1"`, `"image":[]`))
	})
	w.delete(bootstrapSecret("m"))
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if _, live := w.vms(); live != 0 {
		t.Errorf("%d VMs left behind", live)
	}
}

func TestDeletionWithoutCredentials(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	w.delete(smallSecret())
	w.delete(w.get("m"))
	w.run("m")
	if got := w.condition("m", clusterv1.DeletingCondition); !strings.HasPrefix(got, "True SecretNotFound") ||
		!strings.Contains(got, machinev1.ReleaseAnnotation+"=true") {
		t.Fatalf("Deleting is %q, want it to say what is missing and how to let go", got)
	}
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[machinev1.ReleaseAnnotation] = "true" })
	w.run("m")
	if w.get("m") != nil {
		t.Error("the user has let it go")
	}
	if told := strings.Join(w.told(), "\n"); !strings.Contains(told, "ReleasedWithoutVM") {
		t.Errorf("told %s", told)
	}
}

func TestRetainedVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[machinev1.RetainVMAnnotation] = "true" })
	w.delete(w.get("m"))
	w.run("m")
	if _, live := w.vms(); live != 1 || w.get("m") != nil {
		t.Errorf("%d VMs, object %v: want the VM left and the object gone", live, w.get("m"))
	}
	infra := infraCluster()
	if err := w.client.Get(t.Context(), client.ObjectKeyFromObject(infra), infra); err != nil ||
		infra.Annotations[infrav1.RetainedVMsAnnotation] != "uid-m" {
		t.Errorf("%v, annotations %v: the collector of orphans has to know", err, infra.Annotations)
	}
}

// TestSharedVM: two MCMMachines that were made by hand name one VM.
func TestSharedVM(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	shared := w.get("m").Spec.ProviderID
	w.create(w.newMachine("n")...)
	change(w, w.get("n"), func(o *infrav1.MCMMachine) { o.Spec.ProviderID = shared })
	w.delete(w.get("m"))
	w.run("m")
	if _, live := w.vms(); live != 1 || w.get("m") != nil {
		t.Errorf("%d VMs, object %v: want the VM left to the other and the object gone", live, w.get("m"))
	}
	told := strings.Join(w.told(), "\n")
	if !strings.Contains(told, "MCMMachine "+namespace+"/n has the same spec.providerID") {
		t.Errorf("told %s", told)
	}
}

// TestDeletionWaitsForAStalledLeader: what another process has asked for may
// come about late, when the cloud has shown nothing for its settle time.
func TestDeletionWaitsForAStalledLeader(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.fence = fence.New(w.clock, time.Hour)
	w.fence.Acquired(w.clock.Now())
	w.restart()
	w.create(w.newMachine("m")...)
	change(w, w.get("m"), func(o *infrav1.MCMMachine) {
		o.Finalizers = append(o.Finalizers, machinev1.MCMMachineFinalizer)
		o.Annotations = map[string]string{machinev1.CreateAttemptAnnotation: "1", infrav1.MadeFromAnnotation: "small"}
	})
	began := w.clock.Now()
	w.delete(w.get("m"))
	w.settle("m", w.gone())
	if took := w.clock.Now().Sub(began); took < fence.Reach {
		t.Errorf("gone after %s: the leader that asked for the VM may have been about to do so for %s", took, fence.Reach)
	}
}

// TestDeletionWithAnotherClass: the class is gone; another one of the account shows the VM
// with the owner id of the MCMMachine.
func TestDeletionWithAnotherClass(t *testing.T) {
	t.Parallel()
	for _, ours := range []bool{true, false} {
		w := newEnv(t)
		w.running("m")
		other := smallClass()
		other.Name, other.ResourceVersion = "other", ""
		w.create(other)
		change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = nil })
		w.delete(smallClass())
		if !ours {
			change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Annotations[machinev1.OwnerIDAnnotation] = "somebody-else" })
		}
		w.delete(w.get("m"))
		if ours {
			w.settle("m", w.gone())
			if told := strings.Join(w.told(), "\n"); !strings.Contains(told, "ClassSubstituted") {
				t.Errorf("told %s", told)
			}
		} else {
			w.run("m")
			if got := w.condition("m", clusterv1.DeletingCondition); !strings.HasPrefix(got, "True ClassNotFound") ||
				!strings.Contains(got, `with "other": `) {
				t.Errorf("Deleting is %q", got)
			}
		}
		if _, live := w.vms(); (live == 0) != ours {
			t.Errorf("%d VMs left, the VM is its own %v", live, ours)
		}
	}
}

// TestDeletionProvesTheClassOfTheSpec: the VM was made from a class that is gone. The class that
// the spec names by now has other ownership tags and does not find it: it is not gone for that.
func TestDeletionProvesTheClassOfTheSpec(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.running("m")
	other := smallClass()
	other.Name, other.ResourceVersion = "other", ""
	other.ProviderSpec.Raw = []byte(strings.ReplaceAll(string(other.ProviderSpec.Raw), "cluster/test", "cluster/other"))
	w.create(other)
	change(w, w.get("m"), func(o *infrav1.MCMMachine) { o.Spec.MachineClassRef.Name = "other" })
	change(w, smallClass(), func(c *machinev1.MachineClass) { c.Finalizers = nil })
	w.delete(smallClass())
	w.delete(w.get("m"))
	for range 3 {
		w.clock.SetTime(w.clock.Now().Add(10 * time.Minute)) // longer than what is new may be hidden
		w.run("m")
	}
	if _, live := w.vms(); live != 1 || w.get("m") == nil {
		t.Errorf("%d VMs, object %v: want both, the VM was not found", live, w.get("m"))
	}
}
