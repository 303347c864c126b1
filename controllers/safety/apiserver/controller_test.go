package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/target"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

var (
	machines   = schema.GroupResource{Group: "machine.sapcloud.io", Resource: "machines"}
	errRefused = errors.New("connection refused")
)

// env is two clusters whose API servers can fail.
type env struct {
	*harness.Env
	controller *apiserver.Controller
	control    error // what the control cluster answers to a check
	target     error
	patch      map[string]error // by machine
}

func nameOf(o client.Object) []string { return []string{o.GetName()} }

func newEnv(t *testing.T, objects ...client.Object) *env {
	t.Helper()
	byName := []index.Index{
		{Object: &machinev1.Machine{}, Field: "metadata.name", Extract: nameOf},
		{Object: &corev1.Node{}, Field: "metadata.name", Extract: nameOf},
	}
	w := &env{
		Env:   harness.New(t, harness.At(time.Unix(1000, 0)), harness.With(objects...), harness.Indexed(byName)),
		patch: map[string]error{},
	}
	w.Fault = func(r harness.Request) error { return w.patch[r.Name] }
	cluster := func(failure *error) client.Client {
		return interceptor.NewClient(w.Client, interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				probe := (&client.ListOptions{}).ApplyOptions(opts).FieldSelector != nil
				if probe && *failure != nil {
					return *failure
				}
				return c.List(ctx, l, opts...)
			},
		})
	}
	control, nodes := cluster(&w.control), cluster(&w.target)
	w.controller = apiserver.New(apiserver.Deps{
		Client: control, Live: control, Target: &target.Cluster{Client: nodes, Live: nodes}, Clock: w.Clock,
		Events: w.Events, Options: apiserver.Options{Period: time.Minute, Timeout: 30 * time.Second},
	})
	return w
}

// check makes one check some time later and returns when the next one is.
func (w *env) check(later time.Duration) time.Duration {
	w.Helper()
	w.Advance(later)
	result := w.Reconcile(w.controller, client.ObjectKey{})
	if result.RequeueAfter <= 0 {
		w.Fatalf("Reconcile() = %v: the check must never end", result)
	}
	return result.RequeueAfter
}

func (w *env) freeze() {
	w.Helper()
	w.target = errRefused
	w.check(0)
	w.check(31 * time.Second)
	if !w.controller.Frozen() {
		w.Fatal("not frozen")
	}
	w.target = nil
}

func machine(name string, phase machinev1.MachinePhase) *machinev1.Machine {
	return fixture.Machine(name, "small", func(m *machinev1.Machine) {
		m.Status.CurrentStatus.Phase = phase
		m.Status.CurrentStatus.PreserveExpiryTime = &metav1.Time{Time: time.Unix(5000, 0)}
		m.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionUnknown}}
	})
}

func (w *env) phases() map[string]machinev1.MachinePhase {
	w.Helper()
	var list machinev1.MachineList
	w.List(&list)
	got := map[string]machinev1.MachinePhase{}
	for _, m := range list.Items {
		got[m.Name] = m.Status.CurrentStatus.Phase
	}
	return got
}

func TestWhatCountsAsDown(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason          string
		control, target error
		frozen          bool
	}{
		"Answers": {reason: "An empty list is an answer."},
		"Forbidden": {
			reason: "Whoever may not list nodes does not know them.",
			target: apierrors.NewForbidden(machines, "x", errRefused), frozen: true,
		},
		"Unauthorized": {
			reason: "A token that has expired lets the caches go stale.",
			target: apierrors.NewUnauthorized("x"), frozen: true,
		},
		"UnauthorizedControl": {reason: "The same.", control: apierrors.NewUnauthorized("x"), frozen: true},
		"TooManyRequests": {
			reason:  "A server that is too busy for a list, too.",
			control: apierrors.NewTooManyRequests("x", 1), frozen: true,
		},
		"NoSuchKind": {
			reason:  "So is one that does not serve the kind.",
			control: apierrors.NewNotFound(machines, ""), frozen: true,
		},
		"TargetRefuses":  {reason: "No connection is down.", target: errRefused, frozen: true},
		"ControlRefuses": {reason: "Either server counts.", control: errRefused, frozen: true},
		"Timeout":        {reason: "A server that hangs is down.", target: context.DeadlineExceeded, frozen: true},
		"GatewayTimeout": {reason: "The same, from a proxy.", target: apierrors.NewTimeoutError("x", 1), frozen: true},
		"Internal": {
			reason: "A server that has lost its storage answers so.",
			target: apierrors.NewInternalError(errRefused), frozen: true,
		},
		"Unavailable": {reason: "The same.", control: apierrors.NewServiceUnavailable("x"), frozen: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t)
			w.control, w.target = tc.control, tc.target
			w.check(0)
			w.check(31 * time.Second)
			if w.controller.Frozen() != tc.frozen {
				t.Errorf("Frozen() = %v: %s", w.controller.Frozen(), tc.reason)
			}
		})
	}
}

// The cause names what cannot be listed and the error, and does not change with a port.
func TestCauseOfAFreeze(t *testing.T) {
	t.Parallel()
	w := newEnv(t)
	const nodes = "Nodes of the target cluster cannot be listed: "
	reset := func(port int) error { return fmt.Errorf("read tcp 10.0.0.1:%d: %w", port, errRefused) }
	for _, step := range []struct {
		control, target error
		want            string
	}{
		{nil, nil, ""},
		{nil, reset(1), nodes + "read tcp 10.0.0.1:1: connection refused"},
		{nil, reset(2), nodes + "read tcp 10.0.0.1:1: connection refused"},
		{nil, apierrors.NewUnauthorized("token expired"), nodes + "token expired"},
		{
			errRefused, apierrors.NewUnauthorized("token expired"),
			"Machines of the control cluster cannot be listed: connection refused; " + nodes + "token expired",
		},
		{nil, reset(3), nodes + "read tcp 10.0.0.1:3: connection refused"},
	} {
		w.control, w.target = step.control, step.target
		w.check(time.Second)
		if got := w.controller.Cause(); got != step.want {
			t.Errorf("Cause() = %q, want %q", got, step.want)
		}
	}
}

func TestThawResetsUnknownMachines(t *testing.T) {
	t.Parallel()
	terminating := machine("terminating", machinev1.MachineUnknown)
	terminating.DeletionTimestamp, terminating.Finalizers = &metav1.Time{Time: time.Unix(900, 0)}, []string{"x"}
	held := machine("held", machinev1.MachineUnknown)
	held.Annotations = map[string]string{machinev1.MigrationHoldAnnotation: "x"}
	w := newEnv(t, machine("unknown", machinev1.MachineUnknown), machine("failed", machinev1.MachineFailed), terminating,
		held)
	w.freeze()
	if wait := w.check(6 * time.Second); wait != time.Minute || w.controller.Frozen() {
		t.Errorf("wait %v, frozen %v: it thaws by itself", wait, w.controller.Frozen())
	}
	want := map[string]machinev1.MachinePhase{
		"unknown": machinev1.MachineRunning, "failed": machinev1.MachineFailed, "terminating": machinev1.MachineUnknown,
		"held": machinev1.MachineUnknown,
	}
	if diff := cmp.Diff(want, w.phases()); diff != "" {
		t.Errorf("phases (-want +got):\n%s", diff)
	}
	m := harness.Get[machinev1.Machine](w.Cluster, client.ObjectKey{Namespace: fixture.Namespace, Name: "unknown"})
	now := w.Clock.Now()
	if diff := cmp.Diff([]any{
		machinev1.MachineOperationHealthCheck, machinev1.MachineStateSuccessful,
		"Machine Health Timeout was reset due to APIServer being unreachable", true, true, true, 1,
	}, []any{
		m.Status.LastOperation.Type, m.Status.LastOperation.State, m.Status.LastOperation.Description,
		m.Status.LastOperation.LastUpdateTime.Time.Equal(now), m.Status.CurrentStatus.LastUpdateTime.Time.Equal(now),
		m.Status.CurrentStatus.PreserveExpiryTime != nil, len(m.Status.Conditions),
	}); diff != "" {
		t.Errorf("the timeout restarts, and nothing else changes (-want +got):\n%s", diff)
	}
	if !w.controller.ThawedAt().Equal(now) {
		t.Errorf("ThawedAt() = %v, want %v", w.controller.ThawedAt(), now)
	}
}

func TestThawSurvivesErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		err    error
		frozen bool
	}{
		"Conflict": {
			"A machine that somebody else wrote is reset in the next round.",
			apierrors.NewConflict(machines, "a", errRefused), true,
		},
		"Away": {"Another outage: nothing is judged before all are reset.", errRefused, true},
		"Invalid": {
			"One machine that cannot be written must not keep all others frozen.",
			apierrors.NewInvalid(schema.GroupKind{}, "a", nil), false,
		},
		"Gone": {"A machine that is gone needs no reset.", apierrors.NewNotFound(machines, "a"), false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, machine("a", machinev1.MachineUnknown), machine("b", machinev1.MachineUnknown))
			w.freeze()
			w.patch["a"] = tc.err
			for range 20 { // MCM gives up after 15 and stays frozen
				w.check(6 * time.Second)
				if w.controller.Frozen() != tc.frozen {
					t.Fatalf("Frozen() = %v: %s", w.controller.Frozen(), tc.reason)
				}
			}
			if got := w.phases()["b"]; got != machinev1.MachineRunning {
				t.Errorf("b is %s: one machine must not hold up another", got)
			}
			delete(w.patch, "a")
			w.check(6 * time.Second)
			if w.controller.Frozen() {
				t.Error("still frozen once nothing fails any more")
			}
		})
	}
}
