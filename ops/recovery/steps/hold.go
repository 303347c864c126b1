package steps

import (
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// hold has the controllers leave the pools of the plan alone: deployments and all of their
// sets. It waits until all have acknowledged.
func (r *run) hold(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
	var missing []client.Object
	for i := range p.Pools {
		if wrote, err = r.rebase(ctx, &p.Pools[i]); wrote || err != nil {
			return "", wrote, err
		}
		for _, o := range tier(&p.Pools[i]) {
			if recovery.Answered(o) {
				continue
			}
			missing = append(missing, o)
			if asked(o) || pausedBefore(o) {
				continue
			}
			if err := r.annotate(ctx, o, recovery.HoldValue(r.name, o)); err != nil {
				return "", false, err
			}
			wrote = true
		}
	}
	if len(missing) == 0 {
		return "", false, nil
	}
	return fmt.Sprintf("the controllers of %s to leave them alone; do they run?", objects.List(missing)), wrote, nil
}

// pausedBefore reports whether an earlier pause of an object of Cluster API has just ended: its
// condition would look like the answer.
func pausedBefore(o client.Object) bool { return !objects.IsNative(o) && objects.Paused(o) }

// rebase has every object of a pool that is held already keep its present size as the size
// before the recovery, if another one of the pool is not held: an earlier run was interrupted
// while it held the pool, when no size had changed, or while it released it, when all sizes
// were right. What that run has added would otherwise be taken for a part of what is added now.
func (r *run) rebase(ctx context.Context, pool *recovery.PoolPlan) (wrote bool, err error) {
	all := tier(pool)
	if !slices.ContainsFunc(all, func(o client.Object) bool { return !asked(o) }) {
		return false, nil
	}
	for _, o := range all {
		if !recovery.Rebased(o) {
			if err := r.annotate(ctx, o, recovery.HoldValue(r.name, o)); err != nil {
				return wrote, err
			}
			wrote = true
		}
	}
	return wrote, nil
}

// asked reports whether somebody holds o, acknowledged or not.
func asked(o client.Object) bool {
	_, is := o.GetAnnotations()[recovery.HoldKey(o)]
	return is
}

// tier returns what is held of a pool, from the head down.
func tier(p *recovery.PoolPlan) []client.Object {
	var out []client.Object
	if p.Head != nil {
		out = append(out, p.Head)
	}
	return append(out, p.Sets...)
}

// annotate sets the annotation that holds o; "" releases it.
func (r *run) annotate(ctx context.Context, o client.Object, value string) error {
	changed := o.DeepCopyObject().(client.Object)
	if value == "" {
		machinev1.DropHold(changed)
		delete(changed.GetAnnotations(), recovery.HoldKey(o))
	} else {
		machinev1.SetAnnotation(changed, recovery.HoldKey(o), value)
	}
	return r.patch(ctx, o, changed)
}

// patch writes the difference, unless somebody else has changed the object since. An object
// that is gone is looked at again.
func (r *run) patch(ctx context.Context, o, changed client.Object) error {
	if equality.Semantic.DeepEqual(o, changed) {
		return nil
	}
	err := r.Control.Patch(ctx, changed, client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write %s: %w; the same command goes on", objects.Title(o), err)
	}
	return nil
}

func isMachine(o client.Object) bool {
	switch o.(type) {
	case *machinev1.Machine, *clusterv1.Machine:
		return true
	}
	return false
}

func isSet(o client.Object) bool {
	switch o.(type) {
	case *machinev1.MachineSet, *clusterv1.MachineSet:
		return true
	}
	return false
}

func isDeployment(o client.Object) bool { return !isMachine(o) && !isSet(o) }
