package play

import (
	"context"
	"fmt"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// grow is a command that scales the native pool up, one machine at a time, and
// waits for each.
func grow(to int32) func(context.Context, *Command) error {
	return func(ctx context.Context, c *Command) error {
		d := &machinev1.MachineDeployment{}
		for {
			if err := c.Control.Get(ctx, client.ObjectKey{Namespace: namespace, Name: poolName(0)}, d); err != nil {
				return fmt.Errorf("read pool: %w", err)
			}
			switch {
			case d.Status.AvailableReplicas < d.Spec.Replicas:
				if err := c.Wait(ctx, time.Second); err != nil {
					return err
				}
			case d.Spec.Replicas >= to:
				return nil
			default:
				before := d.DeepCopy()
				d.Spec.Replicas++
				if err := c.Control.Patch(ctx, d, client.MergeFrom(before)); err != nil {
					return err
				}
			}
		}
	}
}

// TestACommandRunsBesideManagers plays a command in a world with both APIs, and
// one that is killed and started again.
func TestACommandRunsBesideManagers(t *testing.T) {
	t.Parallel()
	for kill := range 3 {
		w := Open(BothAPIs(uint64(kill), kill%2 == 0), true)
		w.Play(10 * time.Minute)
		ended, err := w.Await(w.Start("grow", kill, grow(5)), time.Hour)
		if err != nil || ended != (kill == 0) {
			t.Fatalf("killed at write %d: it ended: %v, with %v", kill, ended, err)
		}
		if ended, err = w.Await(w.Start("grow again", 0, grow(5)), time.Hour); err != nil || !ended {
			t.Fatalf("killed at write %d: the second one ended: %v, with %v", kill, ended, err)
		}
		if violated := w.Rest(); violated != nil {
			t.Errorf("killed at write %d: %v", kill, violated)
		}
		if n := len(all[*machinev1.Machine](w.Control)); n != 5 {
			t.Errorf("killed at write %d: there are %d Machines, want 5", kill, n)
		}
	}
}
