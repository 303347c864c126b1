package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

// run runs the command on an API server with these objects.
func run(t *testing.T, objects []client.Object, args ...string) (string, error) {
	t.Helper()
	root := newRoot(func(c *common) (*clusters, error) {
		scheme, err := newScheme()
		if err != nil {
			return nil, err
		}
		api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build()
		return &clusters{control: api, target: api, namespace: *c.config.Namespace}, nil
	})
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(append(args, "-n", "garden"))
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// alone is a native Machine of no set, with its node and class.
func alone() []client.Object {
	meta := metav1.ObjectMeta{
		Namespace: "garden", Name: "solo", UID: "uid-solo",
		Labels: map[string]string{machinev1.NodeLabel: "solo"},
	}
	m := &machinev1.Machine{ObjectMeta: meta, Spec: machinev1.MachineSpec{
		ProviderID: "sim:///region/i-1", Class: machinev1.ClassSpec{Kind: machinev1.MachineClassKind, Name: "class"},
	}}
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "solo"}, Spec: corev1.NodeSpec{ProviderID: "sim:///zone/i-1"}}
	node.Status.NodeInfo.KubeletVersion = "v1.36.3"
	return []client.Object{m, node, &machinev1.MachineClass{ObjectMeta: metav1.ObjectMeta{
		Namespace: "garden",
		Name:      "class",
	}}}
}

func TestCommands(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		args   string
		want   string // in the output
		err    string // in the error; empty: none
	}{
		{"a pool by name", "migrate plan machine/solo --cluster shoot", "machine/solo  clusterapi  1         1     0", ""},
		{"all pools", "migrate plan --cluster shoot", "machine/solo", ""},
		{"nothing is on the other API", "migrate plan --to native", "There are no pools to move.", ""},
		{"a pool that does not exist", "migrate plan nobody --cluster shoot", "there is no such pool", errBlocked.Error()},
		{"no Cluster", "migrate plan machine/solo", "no Cluster is named", errBlocked.Error()},
		{"machine readable", "migrate plan machine/solo --cluster shoot -o json", `"providerID": "sim:///zone/i-1"`, ""},
		{"no such API", "migrate plan --to elsewhere", "", `--to="elsewhere"`},
		{"no such format", "migrate plan -o xml", "", `--output="xml"`},
		{"nothing named", "migrate apply --cluster shoot", "", errNoPools.Error()},
		{"nothing moved", "migrate status", "No pool has been moved.", ""},
		{"this one was not moved", "migrate status machine/solo", "machine/solo was never moved.", ""},
		{
			"why a pool is refused", "migrate apply machine/solo",
			"blocked: to be dealt with first\n    machine/solo  spec.clusterName\n", "machine/solo is not moved: see",
		},
		{"nothing to roll back", "migrate rollback machine/solo", "", "was never moved"},
		{"a mistyped command does nothing", "migrate rolback machine/solo", "", `unknown command "rolback"`},
		{"nor does one of takeover", "takeover chekc", "", `unknown command "chekc"`},
		{"no command helps", "migrate", "Available Commands", ""},
		{"all, or some", "migrate finish --all machine/solo", "", errAllAnd.Error()},
		{
			"a mistyped kind is no MachineDeployment", "migrate apply machin/solo --cluster shoot", "",
			`"machin/solo" names no pool`,
		},
		{"nor in status", "migrate status machin/solo", "", `"machin/solo" names no pool`},
		{
			"a name as kubectl prints it, and twice",
			"migrate plan machine.machine.sapcloud.io/solo machine/solo --cluster shoot -o json", `"kept"`, "",
		},
		{"a flag that would do nothing", "migrate rollback machine/solo --to native", "", "unknown flag: --to"},
		{
			"a Cluster that cannot be", "migrate plan machine/solo --cluster My_Shoot", "no Cluster can be called so",
			errBlocked.Error(),
		},
		{
			"a kubeconfig that is not there", "migrate plan machine/solo --cluster shoot --kubeconfig-secret none",
			"Secret garden/none does not exist", errBlocked.Error(),
		},
		{"drivers are the manager's", "takeover check --drivers nebula", `no driver for "`, errUnsafe.Error()},
		{
			"what the manager may create where the nodes are", "takeover check",
			"advised: not in the way, and better done\n    ValidatingAdmissionPolicy capmcm-target-secret-types\n",
			errUnsafe.Error(),
		},
		{"kinds are missing", "takeover check", "to the native API: not safe", errUnsafe.Error()},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, alone(), strings.Fields(c.args)...)
			if !strings.Contains(out, c.want) {
				t.Errorf("output has no %q:\n%s", c.want, out)
			}
			if c.err == "" && err != nil || c.err != "" && (err == nil || !strings.Contains(err.Error(), c.err)) {
				t.Errorf("error %v, want %q", err, c.err)
			}
		})
	}
}

// recorded is the state of a move of machine/solo.
func recorded(to migration.API, phase migration.Phase) client.Object {
	text, _ := json.Marshal(migration.Record{
		Pool: migration.Pool{Kind: migration.KindMachine, Namespace: "garden", Name: "solo"}, To: to,
		Origin: migration.Native, Phase: phase, Cluster: "shoot", Hold: "h",
	})
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "garden", Name: "mcm-migration-machine-solo",
			Labels: map[string]string{machinev1.MigrationLabel: "machine"},
		},
		Data: map[string]string{"record.json": string(text)},
	}
}

// TestAllGoesOn: --all leaves out no pool whose move was interrupted.
func TestAllGoesOn(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason string
		record client.Object
		args   string
		want   string // in what it says, and fails with after no time
	}{
		{
			"the new side is the truth already, and not started", recorded(migration.ClusterAPI, migration.PhaseSwitching),
			"migrate apply --all --cluster shoot", "machine/solo  to clusterapi  Switching",
		},
		{
			"a rollback that clears", recorded(migration.Native, migration.PhaseFinishing), "migrate rollback --all",
			"machine/solo  to native  Finish",
		},
		{
			"a finish that clears", recorded(migration.ClusterAPI, migration.PhaseFinishing), "migrate finish --all",
			"machine/solo  to clusterapi  Finish",
		},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			out, err := run(t, append(alone(), c.record), append(strings.Fields(c.args), "--timeout", "1ns")...)
			if !strings.Contains(out, c.want) {
				t.Errorf("it does not say %q: %v\n%s", c.want, err, out)
			}
		})
	}
}

// TestAllLeavesOutWhatIsRefused, tells why, and fails.
func TestAllLeavesOutWhatIsRefused(t *testing.T) {
	t.Parallel()
	first := alone()[0].DeepCopyObject().(client.Object)
	first.SetName("first")
	first.SetUID("uid-first")
	first.SetLabels(map[string]string{machinev1.NodeLabel: "gone"})
	out, err := run(t, append(alone(), first), "migrate", "apply", "--all", "--cluster", "shoot", "--timeout", "1ns")
	for _, want := range []string{
		"machine/first\n  blocked: to be dealt with first",
		"machine/solo  to clusterapi  Holding",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q: %v\n%s", want, err, out)
		}
	}
	if err == nil {
		t.Error("it does not fail")
	}
}

// TestStopped: somebody who has stopped a command is told what becomes of the pool.
func TestStopped(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := migration.Pool{Kind: migration.KindMachine, Namespace: "garden", Name: "solo"}
	failure := errors.New("failure")
	if err := interrupted(ctx, p, failure); !errors.Is(err, failure) || err.Error() != "failure" {
		t.Errorf("without a stop: %v", err)
	}
	cancel()
	if err := interrupted(ctx, p, ctx.Err()); err == nil || !strings.Contains(err.Error(),
		"machine/solo; nothing is lost: the same command goes on") {
		t.Errorf("after a stop: %v", err)
	}
}
