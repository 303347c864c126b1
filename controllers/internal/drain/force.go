package drain

import (
	"context"
	"errors"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// force deletes every pod of the drain without grace, and waits for none. One
// pod that cannot be deleted does not keep the others.
func (p *pass) force(ctx context.Context) (Result, error) {
	var failed []error
	for _, pod := range p.pods {
		a := p.memory.attempt(pod)
		if a.forced {
			continue // the cache has not caught up
		}
		err := p.remove(ctx, pod)
		if err != nil && unreachable(err) {
			return Result{}, fmt.Errorf("draining node %s by force: deleting pod %s: %w", p.request.Node.Name, name(pod), err)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("deleting pod %s: %w", name(pod), err))
			continue
		}
		a.forced = true
	}
	if len(failed) > 0 {
		return Result{}, fmt.Errorf("draining node %s by force: %w", p.request.Node.Name, errors.Join(failed...))
	}
	return Result{Done: true, Reason: machinev1.ReasonDrained, Message: "all pods have been deleted by force"}, nil
}
