package gcp_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
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

// TestShortagesOfOthers: a shortage of the spot market, of regular VMs or of accelerators stops no class that needs
// something else of the same machine type and zone, as the manager remembers shortages.
func TestShortagesOfOthers(t *testing.T) {
	t.Parallel()
	spot := spec{"scheduling": spec{"onHostMaintenance": "TERMINATE", "provisioningModel": "SPOT"}}
	four := spec{
		"gpu": spec{"acceleratorType": "nvidia-tesla-t4", "count": 4}, "scheduling": spec{"onHostMaintenance": "TERMINATE"},
	}
	for name, c := range map[string]struct {
		reason       string
		short, other spec
		capacity     string
	}{
		"spot":         {"the spot market is empty first", spot, nil, "spot"},
		"regular":      {"the spot market has prices and room of its own", nil, spot, "on-demand"},
		"accelerators": {"a host with four of them is rare, one without is not", four, nil, "on-demand"},
	} {
		w := newEnv(t)
		w.FailNext("ZONE_RESOURCE_POOL_EXHAUSTED", "The zone does not have enough resources available.")
		named := func(name string, change spec) cloud.ClassInput {
			in := class(change)
			in.Name = name
			return in
		}
		account, short := w.open(named("short", c.short), credentials())
		_, other := w.open(named("other", c.other), credentials())
		a := wrap.Offerings(0, wrap.Clock{Now: w.clock.Now})(cloud.AccountInfo{}, account)
		_, err := w.create(a, newMachine("m-1", short))
		e, _ := errors.AsType[*cloud.Error](err)
		if e == nil || e.Offering == nil || e.Offering.CapacityType != c.capacity {
			t.Errorf("%s: got %v, want an exhausted %s offering", name, err, c.capacity)
		}
		m := newMachine("m-2", other)
		m.OwnerID, m.Token = "33333333-3333-4333-8333-333333333333", "22222222"
		if _, err := w.create(a, m); err != nil {
			t.Errorf("%s, as %s: create a VM of the other class: %v", name, c.reason, err)
		}
	}
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
			"the class repeats that of the type",
			spec{"machineType": "g2-standard-4", "gpu": gpu("nvidia-l4", 1), "scheduling": off},
			"1", "50Gi",
		},
		"class": {"the type has none", spec{"gpu": gpu("nvidia-tesla-t4", 2), "scheduling": off}, "2", "50Gi"},
		"no size": {
			"the disk is as large as the image, which is not known",
			spec{"disks": []any{bootDisk(spec{"sizeGb": nil})}},
			"0", "",
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
