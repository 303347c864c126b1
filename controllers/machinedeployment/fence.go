package machinedeployment

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// sign notes on a set that is about to be written from which state of the
// deployment that was decided. The lock of the write covers the set alone.
func (p *pass) sign(set *machinev1.MachineSet) {
	annotate(set, machinev1.DecidedFromAnnotation, fmt.Sprintf("%s/%d", p.d.UID, p.d.Generation))
}

// overtaken says whether a set was written by somebody who knew a newer spec of
// the deployment than this pass does: the caches of two kinds do not wait for each
// other, those of a process that starts least of all. To act would undo that. A
// generation that the deployment never had is nobody's decision.
func (p *pass) overtaken(ctx context.Context) (bool, error) {
	newest := p.d.Generation
	for _, o := range p.pools {
		newest = max(newest, p.signature(o.seen))
	}
	if newest == p.d.Generation {
		return false, nil
	}
	live := &machinev1.MachineDeployment{}
	if err := p.Live.Get(ctx, client.ObjectKeyFromObject(p.d), live); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("read machine deployment on the API server: %w", err)
	}
	return live.UID != p.d.UID || live.Generation > p.d.Generation, nil
}

// signature is the generation of the deployment that the last write to a set was
// decided from; 0 if that is not known, or was another deployment.
func (p *pass) signature(set *machinev1.MachineSet) int64 {
	uid, text, _ := strings.Cut(set.Annotations[machinev1.DecidedFromAnnotation], "/")
	generation, err := strconv.ParseInt(text, 10, 64)
	if err != nil || uid != string(p.d.UID) {
		return 0
	}
	return generation
}
