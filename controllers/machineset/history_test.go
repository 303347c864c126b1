package machineset

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

// Histories of all that can happen: the set is scaled, machines fail, are
// deleted and vanish, the cache lags as a whole or for one kind, writes fail
// before or after their effect, the process dies. No machine is ever created
// while there are as many as wanted, no name is given twice, and once the
// trouble is over there are as many machines as wanted.
func TestHistories(t *testing.T) {
	t.Parallel()
	histories := uint64(60)
	if testing.Short() {
		histories = 10
	}
	for seed := range histories {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			h := &history{env: newEnv(t, newSet(3)), random: rand.New(rand.NewPCG(seed, 1)), named: map[string]bool{}}
			h.watchCreations()
			for range 60 {
				h.happen()
			}
			h.calm()
		})
	}
}

type history struct {
	*env
	random  *rand.Rand
	named   map[string]bool
	trouble bool
}

// watchCreations checks the invariants at every creation, and lets writes fail.
func (h *history) watchCreations() {
	h.Fault = func(r harness.Request) error {
		if h.trouble && h.random.IntN(12) == 0 {
			return errBoom
		}
		if r.Verb != "create" {
			return nil
		}
		if alive, wanted := len(h.alive()), int(h.set().Spec.Replicas); alive >= wanted {
			h.Errorf("%s is created although %d of %d machines exist", r.Name, alive, wanted)
		}
		return nil
	}
	h.Lost = func(r harness.Request) error {
		if r.Verb == "create" {
			if h.named[r.Name] {
				h.Errorf("the name %s is given a second time", r.Name)
			}
			h.named[r.Name] = true
		}
		if h.trouble && h.random.IntN(12) == 0 {
			return errBoom
		}
		return nil
	}
}

func (h *history) happen() {
	h.trouble = false
	// A process that dies leaves a reservation whose machines cannot have come
	// and gone before it is finished: that takes longer than the pass after it.
	h.Clock.SetTime(h.Clock.Now().Add(time.Duration(h.random.IntN(40)) * time.Second))
	switch h.random.IntN(12) {
	case 0:
		h.scale(int32(h.random.IntN(7)))
	case 1:
		h.lag(nil)
	case 2:
		h.lag(func(o client.Object) bool { return h.random.IntN(3) > 0 || !isMachine(o) })
	case 3, 4:
		h.catchUp()
	case 5:
		h.restart()
	case 6:
		h.become(machinev1.MachineRunning)
	case 7:
		if names := h.alive(); len(names) > 0 {
			h.become(machinev1.MachineFailed, names[h.random.IntN(len(names))])
		}
	case 8:
		if names := h.alive(); len(names) > 0 && h.closed() {
			h.Delete(h.machine(names[h.random.IntN(len(names))]))
		}
	case 9:
		if h.closed() {
			h.vanish()
		}
	default:
		h.trouble = true
		_, _ = h.reconcile()
	}
}

// closed reports whether no reservation is open.
func (h *history) closed() bool {
	return !(&scope{set: h.set()}).ordinalsRecord(nil).IsOpen()
}

func (h *history) calm() {
	h.trouble = false
	h.catchUp()
	for range 5 {
		h.Clock.SetTime(h.Clock.Now().Add(fresh.WriteTimeout))
		h.settle()
		h.vanish()
	}
	h.settle()
	if alive, wanted := len(h.alive()), int(h.set().Spec.Replicas); alive != wanted || len(h.machines()) != wanted {
		h.Errorf("in the end there are %d machines, %d of them alive, and %d are wanted", len(h.machines()), alive, wanted)
	}
	if !h.closed() {
		h.Errorf("in the end the reservation is open: %v", h.set().Annotations)
	}
}
