package steps

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/objects"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// release returns the step that releases pools, each for itself: one that waits holds up no
// other.
func (r *run) release(s *recovery.State) step {
	return func(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error) {
		var waits []string
		r.stays = nil
		for _, pool := range families(s, p.Held) {
			if why := recovery.Stays(s, recovery.Family(s, pool[0])); why != "" {
				r.stays = append(r.stays, fmt.Sprintf("%s: %s", objects.List(pool), why))
				continue
			}
			waiting, released, err := r.releasePool(ctx, s, pool)
			if err != nil {
				return "", wrote, err
			}
			wrote = wrote || released
			if waiting != "" {
				waits = append(waits, waiting)
			}
		}
		if wrote {
			return "", true, nil
		}
		return strings.Join(waits, "; "), false, nil
	}
}

// releasePool releases the machines of a pool, then its sets, then its deployment. The
// deployment follows once the statuses of its sets count the new machines: it would replace
// what looks unavailable.
func (r *run) releasePool(ctx context.Context, s *recovery.State, pool []client.Object) (
	waiting string, wrote bool, err error,
) {
	for _, tier := range []func(client.Object) bool{isMachine, isSet, isDeployment} {
		for _, o := range pool {
			if !tier(o) {
				continue
			}
			if why := pending(s, o); why != "" {
				waiting = why
				continue
			}
			if err := r.annotate(ctx, o, ""); err != nil {
				return "", wrote, err
			}
			wrote = true
		}
		if wrote || waiting != "" {
			return waiting, wrote, nil
		}
	}
	return "", false, nil
}

// families returns the objects that are held, by the pools that are released together.
func families(s *recovery.State, held []client.Object) [][]client.Object {
	var names []string
	var out [][]client.Object
	for _, o := range held {
		name := recovery.Family(s, o)
		i := slices.Index(names, name)
		if i < 0 {
			i = len(names)
			names, out = append(names, name), append(out, nil)
		}
		out[i] = append(out[i], o)
	}
	return out
}

// staysHeld returns the error that pools stay held, which names what to do; nil if none does.
func (r *run) staysHeld() error {
	if len(r.stays) == 0 {
		return nil
	}
	return fmt.Errorf("still held: %s; then the same command goes on", strings.Join(r.stays, "; "))
}
