package play

import (
	"context"
	"fmt"
	"testing"
	"time"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/steps"
)

// migrate moves the native pool to the Cluster.
func migrate(name func() string) func(context.Context, *Command) error {
	return func(ctx context.Context, c *Command) error {
		e := steps.New(steps.Deps{Control: c.Control, Target: c.Target, Clock: c.Clock, Wait: c.Wait, Name: name})
		return e.Apply(ctx, migration.Pool{Kind: migration.KindDeployment, Namespace: namespace, Name: poolName(0)},
			migration.Options{
				To: migration.ClusterAPI, Cluster: clusterName, KubeconfigSecret: givenSecret, Now: c.Clock.Now(),
			})
	}
}

// TestAMigrationIsKilledAtAnyWrite moves a pool to Cluster API, with the real
// controllers of both APIs, and kills the command at one of a few of its writes; package
// migration kills it at every one, with played controllers.
func TestAMigrationIsKilledAtAnyWrite(t *testing.T) {
	t.Parallel()
	for _, kill := range []int{0, 1, 5, 9, 14, 20} {
		w := Open(BothAPIs(uint64(100+kill), kill%2 == 0), true)
		names := 0
		name := func() string { names++; return fmt.Sprintf("run-%d-%d", kill, names) }
		w.Play(10 * time.Minute)
		ended, err := w.Await(w.Start("migrate", kill, migrate(name)), 2*time.Hour)
		if kill > 0 && ended {
			t.Errorf("the command ended, with %v, and was not killed at write %d", err, kill)
		}
		for range 3 {
			if ended && err == nil {
				break
			}
			t.Logf("killed at write %d: %v, %v", kill, ended, err)
			w.Play(time.Minute)
			ended, err = w.Await(w.Start("migrate again", 0, migrate(name)), 2*time.Hour)
		}
		if !ended || err != nil {
			t.Errorf("killed at write %d: ended %v, with %v; violated: %v", kill, ended, err, w.Violation())
			continue
		}
		if violated := w.Rest(); violated != nil {
			t.Errorf("killed at write %d: %v", kill, violated)
		}
		if n := len(all[*infrav1.MCMMachine](w.Control)); n != 4 {
			t.Errorf("killed at write %d: there are %d MCMMachines, want 4", kill, n)
		}
	}
}
