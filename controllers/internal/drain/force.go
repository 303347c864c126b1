package drain

import (
	"context"
	"errors"
	"fmt"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// force deletes every pod without a grace period, and waits for none. It goes on with
// the other pods if one cannot be deleted.
func (p *pass) force(ctx context.Context) (Result, error) {
	var failed []error
	for _, pod := range p.pods {
		a := p.state.attempt(pod)
		if a.forced {
			continue // deleted in an earlier pass; the cache does not show it yet
		}
		err := p.deletePod(ctx, pod)
		if err != nil && isServerError(err) {
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
