package machine

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/cloud/sim"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/harness"
)

const refusedCA = `kubelet[905]: "Unable to register node" err="x509: certificate signed by unknown authority"`

// pending brings Machine name of a set up to the moment before its creation times out.
func (w *env) pending(name, says string) {
	w.Helper()
	if harness.Find[machinev1.MachineSet](w.Cluster, keyOf("set")) == nil {
		w.create(fixture.MachineSet("set", "small", 1, fixture.In[*machinev1.MachineSet](namespace),
			func(s *machinev1.MachineSet) {
				s.UID = "set"
				s.OwnerReferences = []metav1.OwnerReference{{
					APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineDeploymentKind, Name: "pool", UID: "pool",
					Controller: new(true), BlockOwnerDeletion: new(true),
				}}
			}))
	}
	m := newMachine(name, w.clock.Now())
	m.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: machinev1.GroupVersion.String(), Kind: machinev1.MachineSetKind, Name: "set", UID: "set",
		Controller: new(true),
	}}
	w.create(m)
	w.settle(name, func() bool { return w.phase(name) == machinev1.MachinePending })
	for _, vm := range w.cloud.VMs() {
		if vm.Name() == name && says != "" {
			w.cloud.Print(vm.ID, says)
		}
	}
}

// evidence is what the pool's Secret keeps; nil if there is none.
func (w *env) evidence() (*corev1.Secret, []console.Failure) {
	w.Helper()
	secret := harness.Find[corev1.Secret](w.Cluster, keyOf(console.SecretName("machine.sapcloud.io", "MachineDeployment",
		"pool")))
	if secret == nil {
		return nil, nil
	}
	all, err := console.Parse(secret.Data[console.EvidenceKey])
	w.Must(err)
	return secret, all
}

func TestConsoleOfAMachineThatDidNotJoinIsKept(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	w.pending("a", "token abcdef.c4n4ry0123456789\n"+refusedCA)
	if secret, _ := w.evidence(); secret != nil || w.cloud.Calls(sim.OpGetConsole) != 0 {
		t.Fatal("a console was read of a machine that has time left")
	}
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("a")
	m := w.machine("a")
	if m.Status.LastOperation.Description != "Machine a failed to join the cluster in 20m0s" {
		t.Errorf("description %q, want MCM's own: others parse it", m.Status.LastOperation.Description)
	}
	secret, all := w.evidence()
	if secret == nil || len(all) != 1 {
		t.Fatalf("evidence %+v, want that of the machine", all)
	}
	f := all[0]
	if f.Cause != console.UnknownCA || f.Machine != "a" || f.ProviderID != m.Spec.ProviderID ||
		!strings.Contains(f.Text, refusedCA) || strings.Contains(f.Text, "c4n4ry") {
		t.Errorf("got %+v, want the cause, and the text without the token", f)
	}
	owners := secret.OwnerReferences
	if secret.Type != machinev1.ConsoleEvidenceType || len(owners) != 1 || owners[0].UID != "pool" ||
		owners[0].BlockOwnerDeletion != nil || owners[0].Controller != nil {
		t.Errorf("type %s, owners %+v, want that the pool owns it and does not wait for it", secret.Type, owners)
	}
	if heard := w.HeardOf("ConsoleRead"); len(heard) != 1 || !strings.Contains(heard[0], "TLS unknown CA") {
		t.Errorf("Events %q, want one that names the cause", heard)
	}
	const shown = "NodeNotFound: Node a does not exist; console: TLS unknown CA"
	w.restart()
	_, _ = w.reconcile("a")
	if got := w.condition("a", machinev1.ConditionNodeReady); got != shown {
		t.Errorf("condition %q, want %q, also after a restart", got, shown)
	}
	if calls := w.cloud.Calls(sim.OpGetConsole); calls != 1 {
		t.Errorf("%d consoles were read, want 1", calls)
	}
}

// TestConsoleIsReadOnce: also when the write of the status fails, and when the process ends before it.
func TestConsoleIsReadOnce(t *testing.T) {
	t.Parallel()
	for _, crash := range []bool{false, true} {
		refuse := false
		w := newEnv(t, interceptor.Funcs{SubResourcePatch: func(ctx context.Context, c client.Client, sub string,
			o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if refuse {
				return apierrors.NewConflict(corev1.Resource("machines"), o.GetName(), nil)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		}})
		w.pending("a", refusedCA)
		w.pass(21 * time.Minute)
		refuse = true
		_, _ = w.reconcile("a")
		refuse = false
		if crash {
			w.restart()
		}
		_, _ = w.reconcile("a")
		if calls := w.cloud.Calls(sim.OpGetConsole); calls != 1 || w.phase("a") != machinev1.MachineFailed {
			t.Errorf("crash %t: %d consoles were read, phase %s, want 1 and Failed", crash, calls, w.phase("a"))
		}
		if heard := w.HeardOf("ConsoleRead"); len(heard) != 1 {
			t.Errorf("crash %t: Events %q, want one", crash, heard)
		}
	}
}

// TestMachineFailsWithoutConsole: whatever happens to the console, the machine fails when it would fail without.
func TestMachineFailsWithoutConsole(t *testing.T) {
	t.Parallel()
	forbid := func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if s, ok := o.(*corev1.Secret); ok && s.Type == machinev1.ConsoleEvidenceType {
			return apierrors.NewForbidden(corev1.Resource("secrets"), o.GetName(), nil)
		}
		return c.Create(ctx, o, opts...)
	}
	without := newEnv(t, interceptor.Funcs{})
	without.controller.Evidence = nil
	without.pending("a", refusedCA)
	without.pass(21 * time.Minute)
	want, _ := without.reconcile("a")
	if without.cloud.Calls(sim.OpGetConsole) != 0 {
		t.Error("a console was read, although that is switched off")
	}
	for name, c := range map[string]struct {
		reason string
		faults interceptor.Funcs
		wrap   cloud.Middleware
		event  bool
	}{
		"NoReader": {
			reason: "Drivers need not read consoles.",
			wrap:   func(_ cloud.AccountInfo, a cloud.Account) cloud.Account { return struct{ cloud.Account }{a} },
		},
		"CloudFails": {
			reason: "The cloud is down just then.",
			wrap:   func(_ cloud.AccountInfo, a cloud.Account) cloud.Account { return brokenConsole{a} },
		},
		"Forbidden": {
			reason: "A role may not let the manager create Secrets; the cause is said all the same.",
			faults: interceptor.Funcs{Create: forbid}, event: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newEnv(t, c.faults)
			if c.wrap != nil {
				w.wraps = []cloud.Middleware{c.wrap}
				w.restart()
			}
			w.pending("a", refusedCA)
			w.pass(21 * time.Minute)
			result, err := w.reconcile("a")
			if err != nil || w.phase("a") != machinev1.MachineFailed || result != want {
				t.Errorf("phase %s, %+v, %v, want Failed, %+v\nbecause: %s", w.phase("a"), result, err, want, c.reason)
			}
			secret, _ := w.evidence()
			if heard := w.HeardOf("ConsoleRead"); secret != nil || (len(heard) == 1) != c.event {
				t.Errorf("Secret %v, Events %q, want none and %t\nbecause: %s", secret, heard, c.event, c.reason)
			}
		})
	}
}

// brokenConsole is an account whose consoles cannot be read.
type brokenConsole struct{ cloud.Account }

func (brokenConsole) Console(context.Context, cloud.Ref) (string, error) {
	return "", cloud.Errorf(cloud.Unavailable, "read console", "Timeout", "no answer in time")
}

// TestEvidenceIsBounded: a fault of a whole pool costs a few reads, and its Secret stays small.
func TestEvidenceIsBounded(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	long := strings.Repeat("x", 300) + "\n"
	for i := range 5 {
		w.pending(fmt.Sprintf("m%d", i), strings.Repeat(long, 200))
	}
	w.pass(21 * time.Minute)
	for i := range 5 {
		_, _ = w.reconcile(fmt.Sprintf("m%d", i))
	}
	secret, all := w.evidence()
	if len(all) != console.Kept || w.cloud.Calls(sim.OpGetConsole) != console.Kept {
		t.Fatalf("%d failures of %d reads, want %d", len(all), w.cloud.Calls(sim.OpGetConsole), console.Kept)
	}
	if size := len(secret.Data[console.EvidenceKey]); size > 2*console.Kept*cloud.ConsoleMax {
		t.Errorf("the Secret has %d bytes, want far less than 1 MiB", size)
	}
	w.pending("later", refusedCA)
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("later")
	if _, all = w.evidence(); len(all) != console.Kept || all[0].Machine != "later" {
		t.Errorf("got %d failures, the first of %s, want the newest in place of the oldest", len(all), all[0].Machine)
	}
}

// TestForeignSecretStays: a Secret that somebody else made under that name is theirs.
func TestForeignSecretStays(t *testing.T) {
	t.Parallel()
	w := newEnv(t, interceptor.Funcs{})
	name := console.SecretName("machine.sapcloud.io", "MachineDeployment", "pool")
	w.create(fixture.Secret(name, map[string]string{"a": "b"}, fixture.In[*corev1.Secret](namespace)))
	w.pending("a", refusedCA)
	w.pass(21 * time.Minute)
	_, _ = w.reconcile("a")
	secret, heard := harness.Find[corev1.Secret](w.Cluster, keyOf(name)), w.HeardOf("ConsoleRead")
	if len(secret.Data[console.EvidenceKey]) > 0 || w.phase("a") != machinev1.MachineFailed || len(heard) != 1 {
		t.Errorf("Secret %v, phase %s, Events %q: want it untouched, and the cause said", secret.Data, w.phase("a"), heard)
	}
}
