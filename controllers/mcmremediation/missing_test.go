package mcmremediation

import (
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestNotFoundOnce: a Machine is not replaced because one look finds no VM.
func TestNotFoundOnce(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	w.cloud.Terminate(w.vm, "Terminated")
	w.Advance(time.Hour)
	if wait := w.run(); wait != heldCheck {
		t.Errorf("looks again after %v", wait)
	}
	w.expect(infrav1.RemediationPending, machinev1.ReasonVMNotFound, 0)
	w.gone()
	w.run()
	w.expect(infrav1.RemediationReplacing, infrav1.ReasonNotRebootable, 0)
}

// TestMCMMachineNotInTheCache: it is looked for on the API server before the Machine is replaced.
func TestMCMMachineNotInTheCache(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	p, err := w.controller.observe(w.Context(), w.object())
	w.Must(err)
	p.seen.infra = nil
	w.Must(w.controller.act(w.Context(), p))
	if handedOver(w.machine()) || p.did.requeue == 0 {
		t.Errorf("the owner is asked to replace the Machine, or nothing follows: %+v", p.did)
	}
}
