package gcp_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
)

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
