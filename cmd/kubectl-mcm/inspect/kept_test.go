package inspect

import (
	"context"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/fleet"
)

// unjoined is the native pool with its evidence: two machines that are gone, and the third, which
// waits for its node.
func unjoined(t *testing.T) []client.Object {
	t.Helper()
	objects := fleet.Native()
	for _, o := range objects {
		m, ok := o.(*machinev1.Machine)
		if !ok || m.Name != "workers-abcde-3" {
			continue
		}
		m.Spec.ProviderID, m.Status.CurrentStatus.Phase = "sim:///sim-1/3", machinev1.MachinePending
		m.Status.Progress = fleet.Unready(machinev1.ConditionNodeReady, machinev1.ReasonWaitingForNode,
			"Node n has not joined")
	}
	failure := func(name string, cause console.Cause, line string, minutes int) console.Failure {
		return console.Failure{
			Machine: name, OwnerID: "id-" + name, ProviderID: "sim:///" + name, Cause: cause, Line: line, Times: 1,
			Read: now.Add(-time.Duration(minutes) * time.Minute), Text: "login:\n" + line + "\n",
		}
	}
	data, err := console.Format([]console.Failure{
		failure("gone-2", console.UnknownCA, "x509: unknown authority", 5),
		failure("gone-1", console.UnknownCA, "x509: older line", 30), failure("gone-0", console.Unknown, "", 60),
	})
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{Type: machinev1.ConsoleEvidenceType, Data: map[string][]byte{console.EvidenceKey: data}}
	secret.Namespace = objects[0].GetNamespace()
	secret.Name = console.SecretName("machine.sapcloud.io", "MachineDeployment", "workers")
	return append(objects, secret)
}

// TestWhyOfUnjoined: the cause stands on the consoles of the machines before, which are gone.
func TestWhyOfUnjoined(t *testing.T) {
	t.Parallel()
	const want = "Console:  2 of the last 3 machines that did not join: TLS unknown CA\n" +
		"          gone-2, 5m ago: x509: unknown authority\n"
	api := fleet.API(t, unjoined(t)...).Build()
	for _, object := range []string{"machine/workers-abcde-3", "mcs/workers-abcde", "mcd/workers"} {
		out, _ := run(t, api, "why", object)
		if !strings.Contains(out, want) || !strings.Contains(out, "1 of the last 3 machines that did not join: unknown") {
			t.Errorf("why %s:\n%s\nwant\n%s", object, out, want)
		}
	}
	if out, _ := run(t, api, "why", "machine/workers-abcde-1"); strings.Contains(out, "Console:") {
		t.Errorf("a machine that has joined shows consoles:\n%s", out)
	}
}

// TestKept: also of machines that are gone, and with the reason where there is nothing.
func TestKept(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, kind, name string
		want               int
		err                string
		forbidden          bool
	}{
		"Pool":      {"All that are kept, the newest first.", "mcd", "workers", 3, "", false},
		"Set":       {"The deployment keeps them.", "machineset", "workers-abcde", 3, "", false},
		"Machine":   {"It is gone, and its console is not.", "machine", "gone-2", 1, "", false},
		"Other":     {"Nothing is kept of it.", "machine", "workers-abcde-1", 0, "no console is kept", false},
		"Kind":      {"Consoles are those of machines.", "cluster", "prod", 0, "name a machine", false},
		"Forbidden": {"A reader without the right learns that.", "mcd", "workers", 0, "not read: consoles", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			api := client.Reader(fleet.API(t, unjoined(t)...).Build())
			if c.forbidden {
				api = noSecrets{Reader: api}
			}
			deps := Deps{Now: func() time.Time { return now }, Connect: func() (Clusters, error) {
				return Clusters{Control: api, Target: api, Namespace: unjoined(t)[0].GetNamespace()}, nil
			}}
			found, err := deps.Kept(t.Context(), c.kind, c.name)
			if len(found) != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("got %d, %v, want %d, %q\nbecause: %s", len(found), err, c.want, c.err, c.reason)
			}
			if len(found) > 0 && found[0].Machine != "gone-2" {
				t.Errorf("the first is %s, want the newest", found[0].Machine)
			}
		})
	}
}

// TestKeptOfOnePool: a Role names Secrets, and pools without kept consoles have none to name. They hide nothing of
// those that have.
func TestKeptOfOnePool(t *testing.T) {
	t.Parallel()
	objects := unjoined(t)
	secret := objects[len(objects)-1]
	other := fixture.MachineDeployment("another", "workers-v1", 1,
		fixture.In[*machinev1.MachineDeployment](secret.GetNamespace()))
	api := noSecrets{fleet.API(t, append(objects, other)...).Build(), secret.GetName()}
	deps := Deps{Now: func() time.Time { return now }, Connect: func() (Clusters, error) {
		return Clusters{Control: api, Target: api, Namespace: secret.GetNamespace()}, nil
	}}
	if found, err := deps.Kept(t.Context(), "mcd", "workers"); err != nil || len(found) != console.Kept {
		t.Errorf("got %d, %v, want %d", len(found), err, console.Kept)
	}
	const want = "Console:  2 of the last 3 machines that did not join: TLS unknown CA\n"
	if out, _ := run(t, api, "why", "mcd/workers"); !strings.Contains(out, want) {
		t.Errorf("why:\n%s\nwant\n%s", out, want)
	}
}

// noSecrets is an API server that lets no Secret be read but one.
type noSecrets struct {
	client.Reader
	but string
}

func (r noSecrets) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if _, ok := o.(*corev1.Secret); ok && key.Name != r.but {
		return apierrors.NewForbidden(corev1.Resource("secrets"), key.Name, nil)
	}
	return r.Reader.Get(ctx, key, o, opts...)
}
