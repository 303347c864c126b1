package driverkit

import (
	"context"
	"slices"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Part is a VM or another resource of a machine that Delete has found.
type Part struct {
	Kind cloud.Kind
	ID   string
	// Remove asks for the part to go and returns without waiting. It reports whether the
	// part has gone by then, also when there was none. Nil waits for a part that is going
	// already, or that cannot be removed before something else has gone.
	Remove func(ctx context.Context) (gone bool, err error)
}

// RemoveStep finds parts that may go once those of the steps before have gone.
type RemoveStep struct {
	Find       func(ctx context.Context) ([]Part, error)
	RetryAfter time.Duration // when it is worth asking again while parts of this step are left
}

// Remove is Account.Delete: it asks for the parts of the first step that finds any to go
// and returns what is left of them. It is done when no step finds any. It stops at the
// first error. It is repeatable, and a step is looked at again in each call.
func Remove(ctx context.Context, steps ...RemoveStep) (cloud.Deletion, error) {
	found := false
	for _, step := range steps {
		parts, err := step.Find(ctx)
		if err != nil {
			return cloud.Deletion{}, err
		}
		found = found || len(parts) > 0
		var left []string
		for _, p := range parts {
			gone := false
			if p.Remove != nil {
				if gone, err = p.Remove(ctx); err != nil {
					return cloud.Deletion{}, err
				}
			}
			if !gone {
				left = append(left, string(p.Kind)+" "+p.ID)
			}
		}
		if len(left) > 0 {
			slices.Sort(left)
			return cloud.Deletion{RetryAfter: step.RetryAfter, Remaining: left}, nil
		}
	}
	return cloud.Deletion{Done: true, Found: found}, nil
}
