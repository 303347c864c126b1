package metrics

import (
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestHolds(t *testing.T) {
	t.Parallel()
	hold := func(o client.Object, asked, answer, since string) client.Object {
		all := map[string]string{machinev1.MigrationHoldAnnotation: asked}
		if answer != "" {
			all[machinev1.MigrationHeldAnnotation], all[machinev1.MigrationHeldSinceAnnotation] = answer, since
		}
		o.SetAnnotations(all)
		return o
	}
	leftOver := machine("left", machinev1.MachineRunning)
	leftOver.Annotations = map[string]string{
		machinev1.MigrationHeldAnnotation:      "x",
		machinev1.MigrationHeldSinceAnnotation: "1970-01-01T00:00:01Z",
	}
	elsewhere := machine("e", machinev1.MachineRunning)
	elsewhere.Namespace = "other"
	o := NewObjects(clientOf(
		t, machine("free", machinev1.MachineRunning), leftOver,
		hold(machine("a", machinev1.MachineRunning), "x", "x", "1970-01-01T00:10:00Z"),
		hold(machine("b", machinev1.MachineRunning), "x", "x", "1970-01-01T00:05:00Z"),
		hold(machine("c", machinev1.MachineRunning), "y", "x", "1970-01-01T00:00:00Z"),
		hold(machine("d", machinev1.MachineRunning), "x", "x", "at noon"),
		hold(elsewhere, "x", "", ""),
		hold(&machinev1.MachineSet{ObjectMeta: meta("s")}, "x", "x", "1970-01-01T00:20:00Z"),
		hold(&machinev1.MachineDeployment{ObjectMeta: meta("d")}, "x", "x", "1970-01-01T00:20:00Z"),
	), scrape(t), nil, nil)
	compare(t, "holds are counted by whether they are answered; the oldest answer of a namespace is told", o, `
# HELP mcm_migration_held_objects Number of objects that are held for a migration, by whether their controller has answered.
# TYPE mcm_migration_held_objects gauge
mcm_migration_held_objects{answered="false",kind="Machine",namespace="ns"} 1
mcm_migration_held_objects{answered="false",kind="Machine",namespace="other"} 1
mcm_migration_held_objects{answered="true",kind="Machine",namespace="ns"} 3
mcm_migration_held_objects{answered="true",kind="MachineDeployment",namespace="ns"} 1
mcm_migration_held_objects{answered="true",kind="MachineSet",namespace="ns"} 1
# HELP mcm_migration_held_since_timestamp_seconds Unix time at which the oldest current hold of the namespace was answered.
# TYPE mcm_migration_held_since_timestamp_seconds gauge
mcm_migration_held_since_timestamp_seconds{namespace="ns"} 300
`, "mcm_migration_held_objects", "mcm_migration_held_since_timestamp_seconds")
}
