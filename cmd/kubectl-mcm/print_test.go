package main

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/plan"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/takeover"
)

var update = flag.Bool("update", false, "write the golden files")

// examplePlans are one pool that can be moved, and one with many machines in its way.
func examplePlans() []plan.Plan {
	good := plan.Plan{
		Pool: migration.Pool{Kind: migration.KindDeployment, Namespace: "garden", Name: "pool-a"}, From: migration.Native,
		To:      migration.ClusterAPI,
		Cluster: "shoot", Replicas: 1, Accepted: []string{"spec.revisionHistoryLimit"},
		Machines: []plan.MachinePlan{{
			Name: "pool-a-1", Set: "pool-a-abcde", Node: "node-1", Phase: "Running", Verdict: plan.VerdictKept,
			KubeletVersion: "v1.36.3",
			ProviderID:     "sim:///zone/i-1", ProviderIDForm: plan.FormNode,
			Finalizers: []string{"machine.sapcloud.io/machine-controller-manager"},
		}},
		Findings: []migration.Finding{
			{
				Level: migration.Lost, Object: "MachineDeployment garden/pool-a", Field: "spec.revisionHistoryLimit",
				Text: "Cluster API deletes old MachineSets when a rollout is over",
			},
			{Level: migration.Kept, Object: "MachineDeployment garden/pool-a", Field: "spec.replicas", Text: "stays 1"},
		},
		Creates: []plan.Objects{{Kind: "Machine", Names: []string{"pool-a-1"}}},
		Finalizers: []plan.Finalizer{{
			Name: "machine.cluster.x-k8s.io", On: "Machine (Cluster API)",
			Text: "added by Cluster API",
		}},
	}
	bad := good
	bad.Pool.Name, bad.Phase, bad.Machines, bad.Findings, bad.Creates, bad.Finalizers, bad.Accepted = "pool-b",
		migration.PhaseHolding, nil, nil, nil, nil, nil
	for i := range 6 {
		name := fmt.Sprintf("pool-b-%d", i)
		bad.Machines = append(bad.Machines, plan.MachinePlan{
			Name: name, Verdict: plan.VerdictBlocked,
			Reason: "it is Failed", Remedy: "wait", ProviderIDForm: plan.FormSame,
		})
		bad.Findings = append(bad.Findings, migration.Finding{
			Level: migration.Blocked, Object: "Machine garden/" + name,
			Text: "it is Failed", Remedy: "wait",
		})
	}
	return []plan.Plan{good, bad}
}

func TestOutput(t *testing.T) {
	t.Parallel()
	takeover := takeover.Report{
		Namespace: "garden", Machines: 2,
		There: []migration.Finding{{
			Level: migration.Kept, Object: "Lease",
			Text: "a manager of this project holds MCM's leases already",
		}},
		Back: []migration.Finding{{
			Level: migration.Blocked, Object: "Machine a, b", Field: "spec.providerID",
			Text: "they have another form", Remedy: "wait",
		}},
	}
	records := []migration.Record{{
		Pool: migration.Pool{Kind: migration.KindDeployment, Namespace: "garden", Name: "pool-a"},
		To:   migration.ClusterAPI, Origin: migration.Native,
		Phase: migration.PhaseCopying, Cluster: "shoot", Changed: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
		Waiting: "Cluster shoot is being made",
	}}
	for name, show := range map[string]func(*bytes.Buffer, string) error{
		"plan":     func(out *bytes.Buffer, format string) error { return printPlans(out, format, examplePlans()) },
		"none":     func(out *bytes.Buffer, format string) error { return printPlans(out, format, []plan.Plan{}) },
		"takeover": func(out *bytes.Buffer, format string) error { return printTakeover(out, format, takeover) },
		"status":   func(out *bytes.Buffer, format string) error { return printRecords(out, format, records) },
	} {
		for _, format := range formats {
			t.Run(name+" "+format, func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				if err := show(&out, format); err != nil {
					t.Fatal(err)
				}
				golden(t, name+"."+format, out.Bytes())
			})
		}
	}
}

func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs, go test -update rewrites it:\n%s", path, diff)
	}
}
