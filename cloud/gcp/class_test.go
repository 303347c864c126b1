package gcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// TestDiskThatIsLeft: the name of a disk that an earlier try has left is taken for ever. The next try asks for
// another one, whether or not the record of the first is still there.
func TestDiskThatIsLeft(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.LeaveDisks()
	w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available.")
	a, c := w.open(class(nil), credentials())
	m := newMachine("m-1", c)
	if _, err := w.create(a, m); cloud.CodeOf(err) != cloud.Exhausted || len(w.Things()) != 1 {
		t.Fatalf("create where there is no room: %v, %d things left; want Exhausted, and a disk", err, len(w.Things()))
	}
	m.State = "" // nothing that was written down is left
	for range 5 {
		vm, err := w.create(a, m)
		if err == nil {
			if vm.State != cloud.StatePending && vm.State != cloud.StateRunning {
				t.Errorf("create after a name was taken: %+v", vm)
			}
			if err := w.remove(a, m.Ref); err != nil || len(w.Things()) != 0 {
				t.Errorf("delete: %v, %d things left; want none", err, len(w.Things()))
			}
			return
		}
		if cloud.CodeOf(err) != cloud.Unavailable {
			t.Fatalf("create with the name of a disk that is left: %v, want Unavailable", err)
		}
	}
	t.Error("the name of a disk that is left is asked for for ever")
}

// TestSpotIsPreemptible: Google's documentation sends preemptible beside the provisioning model.
func TestSpotIsPreemptible(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	a, c := w.open(class(spec{"scheduling": spec{"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT"}}),
		credentials())
	if _, err := w.create(a, newMachine("m-1", c)); err != nil {
		t.Fatal(err)
	}
	var asked struct {
		Scheduling struct{ Preemptible bool }
	}
	for _, call := range w.proxy.Calls() {
		if strings.HasPrefix(call.Op, http.MethodPost) && !call.Login {
			_ = json.Unmarshal(call.Body, &asked)
		}
	}
	if !asked.Scheduling.Preemptible {
		t.Error("a VM of the spot market is asked for without preemptible")
	}
}

// TestCapacityOfClasses: what a class says beside its machine type.
func TestCapacityOfClasses(t *testing.T) {
	t.Parallel()
	gpu := func(kind string, count int) spec { return spec{"acceleratorType": kind, "count": count} }
	off := spec{"onHostMaintenance": "TERMINATE"}
	for name, c := range map[string]struct {
		reason            string
		class             spec
		gpus, ephemeralOf string
	}{
		"type": {"the type has one", spec{"machineType": "g2-standard-4", "scheduling": off}, "1", "50Gi"},
		"both": {
			"the class repeats that of the type", spec{"machineType": "g2-standard-4", "gpu": gpu("nvidia-l4", 1), "scheduling": off},
			"1", "50Gi",
		},
		"class": {"the type has none", spec{"gpu": gpu("nvidia-tesla-t4", 2), "scheduling": off}, "2", "50Gi"},
		"no size": {
			"the disk is as large as the image, which is not known", spec{"disks": []any{bootDisk(spec{"sizeGb": nil})}}, "0", "",
		},
	} {
		w := newEnv(t)
		a, parsed := w.open(class(c.class), credentials())
		got, err := a.Capacity(t.Context(), parsed)
		if err != nil || got.Resources["gpu"] != c.gpus || got.Resources["ephemeral-storage"] != c.ephemeralOf {
			t.Errorf("%s, as %s: %v, %v; want %s accelerators and %q of a disk", name, c.reason, got.Resources, err, c.gpus,
				c.ephemeralOf)
		}
	}
}
