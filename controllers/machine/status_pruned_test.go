package machine

import (
	"context"
	"regexp"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// pruning is an API server with MCM's own CRDs, which counts status writes.
func pruning(writes *int) interceptor.Funcs {
	return interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
			opts ...client.SubResourcePatchOption,
		) error {
			m, ok := o.(*machinev1.Machine)
			if !ok {
				return c.SubResource(sub).Patch(ctx, o, p, opts...)
			}
			*writes++
			if err := c.SubResource(sub).Patch(ctx, o, p, opts...); err != nil {
				return err
			}
			m.Status.Progress, m.Status.NodeRef = nil, nil
			return c.SubResource(sub).Update(ctx, m)
		},
	}
}

func TestMCMsOwnCRDsCostNoWritesAndNoEvents(t *testing.T) {
	t.Parallel()
	writes := 0
	w := newEnv(t, pruning(&writes))
	w.running("m")
	w.setUnready("m")
	for range 3 {
		_, _ = w.reconcile("m")
		w.pass(time.Second)
	}
	if w.phase("m") != machinev1.MachineUnknown {
		t.Fatalf("phase %q, want Unknown", w.phase("m"))
	}
	told := len(w.events.Events)
	writes = 0
	for range 5 {
		w.pass(time.Minute)
		if _, err := w.reconcile("m"); err != nil {
			t.Fatal(err)
		}
	}
	if writes != 0 || len(w.events.Events) != told {
		t.Errorf("%d status writes and %d more Events although nothing has changed: fields that the API server drops "+
			"decide nothing", writes, len(w.events.Events)-told)
	}
}

func TestMCMsOwnCRDsStillTellOfFaults(t *testing.T) {
	t.Parallel()
	writes := 0
	w := newEnv(t, pruning(&writes))
	m := newMachine("m", w.clock.Now())
	m.Spec.Class.Name = "missing"
	w.create(m)
	for range 4 {
		_, _ = w.reconcile("m")
		w.pass(time.Second)
	}
	if told := len(w.events.Events); told != 1 {
		t.Errorf("%d Events about the missing class in 4 passes, want 1", told)
	}
}

func TestDroppedFieldsAreSentOnce(t *testing.T) {
	t.Parallel()
	writes, sent := 0, 0
	faults := pruning(&writes)
	prune := faults.SubResourcePatch
	faults.SubResourcePatch = func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch,
		opts ...client.SubResourcePatchOption,
	) error {
		data, err := p.Data(o)
		if err != nil {
			return err
		}
		if _, ok := o.(*machinev1.Machine); ok && regexp.MustCompile(`"(progress|nodeRef)"`).Match(data) {
			sent++
		}
		return prune(ctx, c, sub, o, p, opts...)
	}
	w := newEnv(t, faults)
	for _, name := range []string{"a", "b", "c"} {
		w.running(name)
		w.setUnready(name)
		for range 3 {
			_, _ = w.reconcile(name)
			w.pass(time.Second)
		}
		if w.phase(name) != machinev1.MachineUnknown {
			t.Fatalf("%s: phase %q, want Unknown", name, w.phase(name))
		}
	}
	if sent != 1 || writes < 6 {
		t.Errorf("%d of %d status writes had fields that the API server drops, want the first one only", sent, writes)
	}
}

func TestUnsentFieldsAreNotTakenForDropped(t *testing.T) {
	t.Parallel()
	c := &Controller{}
	status := machinev1.MachineStatus{Progress: &machinev1.Progress{}}
	c.rememberPruned(t.Context(), &machinev1.Machine{}, status, status)
	if c.pruned.Known() {
		t.Error("somebody else may have removed what this write did not contain")
	}
	c.rememberPruned(t.Context(), &machinev1.Machine{}, machinev1.MachineStatus{}, status)
	if !c.pruned.Known() {
		t.Error("what was sent and is not in the answer was dropped")
	}
}
