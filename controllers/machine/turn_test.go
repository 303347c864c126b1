package machine

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/wrap"
)

// busy is an env whose account has no call left until its clock moves on.
func busy(t *testing.T, faults interceptor.Funcs) *env {
	t.Helper()
	w := newEnv(t, faults)
	rate := wrap.Rate{PerSecond: .03, Burst: 1}
	w.wraps = []cloud.Middleware{wrap.Budget(rate, nil, wrap.Clock{Now: w.clock.Now, Rand: func() float64 { return 0 }})}
	w.restart()
	w.create(newMachine("first", w.clock.Now()))
	w.settle("first", func() bool { made, _ := w.vms(); return made == 1 })
	return w
}

func TestWaitingForItsTurnAtTheCloudCostsNothing(t *testing.T) {
	t.Parallel()
	tokens, statuses := 0, 0
	w := busy(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, secret := o.(*corev1.Secret); secret {
				tokens++
			}
			return c.Create(ctx, o, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			statuses++
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	w.create(newMachine("m", w.clock.Now()))
	tokens, statuses = 0, 0
	for range 3 {
		w.pass(time.Second)
		if result, err := w.reconcile("m"); err != nil || result.RequeueAfter == 0 {
			t.Fatalf("%+v, %v: nothing else wakes the machine", result, err)
		}
	}
	if tokens != 0 || statuses != 0 || w.phase("m") != "" {
		t.Errorf("%d tokens, %d writes of a status, phase %q while the account's rate is used up; want none: nothing is "+
			"wrong", tokens, statuses, w.phase("m"))
	}
	w.pass(20 * time.Second)
	_, _ = w.reconcile("m")
	if said := w.condition("m", machinev1.ConditionVMReady); !strings.HasPrefix(said, machinev1.ReasonCloudThrottled) ||
		w.phase("m") != "" {
		t.Errorf("condition %q, phase %q; want what it has waited for so long", said, w.phase("m"))
	}
	w.pass(5 * time.Minute)
	w.settle("m", func() bool { made, _ := w.vms(); return made == 2 })
	if tokens != 1 {
		t.Errorf("%d tokens for a machine that had to wait, want 1", tokens)
	}
}

// TestLongRateWaitIsReportedAtOnce: the first refusal says how long the machine has to wait.
func TestLongRateWaitIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	w := busy(t, interceptor.Funcs{})
	names := []string{"a", "b", "c", "d", "e"} // one turn in 33 s
	for _, name := range names {
		w.create(newMachine(name, w.clock.Now()))
		_, _ = w.reconcile(name)
	}
	if said := w.condition(names[0], machinev1.ConditionVMReady); said != "" {
		t.Errorf("condition %q of the first in the queue, want none: a VM takes longer to boot", said)
	}
	said := w.condition(names[4], machinev1.ConditionVMReady)
	if !strings.HasPrefix(said, machinev1.ReasonCloudThrottled) {
		t.Errorf("condition %q of the last in the queue, want what it waits for", said)
	}
	before := w.machine(names[4]).ResourceVersion
	if _, _ = w.reconcile(names[4]); w.machine(names[4]).ResourceVersion != before {
		t.Error("it was written again although it says already what it waits for")
	}
}

func TestNobodyWaitsForItsTurnForEver(t *testing.T) {
	t.Parallel()
	w := busy(t, interceptor.Funcs{})
	w.options.CreationTimeout = 30 * time.Second
	w.restart()
	w.create(newMachine("second", w.clock.Now()))
	w.settle("second", func() bool { made, _ := w.vms(); return made == 2 })
	w.create(newMachine("m", w.clock.Now()))
	_, _ = w.reconcile("m")
	w.pass(31 * time.Second)
	_, _ = w.reconcile("m")
	if w.phase("m") != machinev1.MachineFailed {
		t.Errorf("phase %q after the creation timeout, want Failed", w.phase("m"))
	}
}
