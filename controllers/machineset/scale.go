package machineset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/freeze"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// scale creates the machines that are missing, or deletes those that are too
// many, failed, or chosen by a scaler. Failed machines count until they are
// deleted, so a pass that creates leaves them to the next one.
func (c *Controller) scale(ctx context.Context, p *pass) error {
	p.counted = true
	p.awaitExpiry()
	missing := int(p.set.Spec.Replicas) - len(active(p.machines))
	if missing > 0 && !p.blocked() {
		p.failure = c.create(ctx, p)
		return p.failure
	}
	p.failure = c.trim(ctx, p)
	if p.failure != nil {
		return p.failure
	}
	return c.closeReservation(ctx, p)
}

// blocked reports whether no machine may be created now.
func (p *pass) blocked() bool {
	_, disabled := p.set.Labels[machinev1.ScaleUpDisabledLabel]
	return disabled || freeze.IsFrozen(p.set)
}

// trim deletes the machines that shall go.
func (c *Controller) trim(ctx context.Context, p *pass) error {
	going, err := c.surplus(ctx, p)
	if err != nil {
		return err
	}
	for _, m := range active(p.machines) {
		if doomed(m, p.views[m.Name], p.now) || p.due(m) {
			going = append(going, m)
		}
	}
	return c.delete(ctx, p, unique(going))
}

// surplus returns the machines that are too many. Which ones is decided from
// what the API server has: a scaler marks a machine just before it asks for one
// machine less, and the cache may show the two in the other order.
func (c *Controller) surplus(ctx context.Context, p *pass) ([]*machinev1.Machine, error) {
	if countSurplus(p.set, p.machines) <= 0 {
		return nil, nil
	}
	if live, err := c.liveSet(ctx, p); err != nil {
		return nil, err
	} else if live.UID != p.set.UID || live.Spec.Replicas != p.set.Spec.Replicas {
		return nil, behind("the MachineSet has been scaled")
	}
	machines, err := c.survey(ctx, p)
	if err != nil {
		return nil, err
	}
	count := countSurplus(p.set, machines)
	candidates := countable(machines)
	if count <= 0 {
		return nil, nil
	}
	rollout.Ranking{Now: p.now, Chosen: chosen(p.deployment)}.Sort(candidates)
	return candidates[:count], nil
}

func countSurplus(set *machinev1.MachineSet, machines []*machinev1.Machine) int {
	return len(countable(machines)) - int(set.Spec.Replicas)
}

// countable returns the machines that a set must have replicas for. One that has
// just been updated in place came from another set, and its replica follows.
func countable(machines []*machinev1.Machine) []*machinev1.Machine {
	return slices.DeleteFunc(active(machines), func(m *machinev1.Machine) bool {
		return m.Labels[machinev1.UpdateResultLabel] == machinev1.UpdateSuccessful
	})
}

// liveSet is the set on the API server; one without UID if there is none.
func (c *Controller) liveSet(ctx context.Context, p *pass) (*machinev1.MachineSet, error) {
	live := &machinev1.MachineSet{}
	if err := c.Live.Get(ctx, client.ObjectKeyFromObject(p.set), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read MachineSet on the API server: %w", err)
	}
	return live, released(live, nil)
}

// survey lists the set's machines on the API server, sorted by name.
func (c *Controller) survey(ctx context.Context, p *pass) ([]*machinev1.Machine, error) {
	list := &machinev1.MachineList{}
	err := c.Live.List(ctx, list, client.InNamespace(p.set.Namespace), client.MatchingLabelsSelector{Selector: p.selector})
	if err != nil {
		return nil, fmt.Errorf("count Machines on the API server: %w", err)
	}
	var machines []*machinev1.Machine
	for i := range list.Items {
		if metav1.IsControlledBy(&list.Items[i], p.set) {
			machines = append(machines, &list.Items[i])
		}
	}
	sortByName(machines)
	p.machines = p.memory.confirm(p.machines, machines)
	return machines, released(p.set, machines)
}

// due reports whether a scaler wants this very machine deleted, even if there is
// none too many. The mark must not be newer than the scaler's last change of the
// replicas, and that change must have reached the set: otherwise the machine
// would be replaced first and the set shrunk afterwards.
func (p *pass) due(m *machinev1.Machine) bool {
	if m.Annotations[machinev1.PriorityAnnotation] != machinev1.HighestPriority {
		return false
	}
	marked, isMarked := rollout.MarkedAt(m)
	changed, err := time.Parse(time.RFC3339, p.set.Annotations[machinev1.LastReplicaChangeByScalerAnnotation])
	return isMarked && err == nil && !marked.After(changed) && !p.awaitsScaling()
}

// awaitsScaling reports whether the MachineDeployment has been scaled, and the set
// not yet.
func (p *pass) awaitsScaling() bool {
	desired, found := p.set.Annotations[machinev1.DesiredReplicasAnnotation]
	return found && p.deployment != nil && desired != fmt.Sprint(p.deployment.Spec.Replicas)
}

// chosen returns the names of the machines that a MachineDeployment lists for
// deletion, as "name~time" or, from old scalers, "name".
func chosen(d *machinev1.MachineDeployment) map[string]bool {
	names := map[string]bool{}
	if d == nil {
		return names
	}
	for entry := range strings.SplitSeq(d.Annotations[machinev1.TriggerDeletionAnnotation], ",") {
		name, _, _ := strings.Cut(strings.TrimSpace(entry), "~")
		names[name] = true
	}
	return names
}

// unique returns the machines without repetitions, in their order.
func unique(machines []*machinev1.Machine) []*machinev1.Machine {
	seen := map[string]bool{}
	return slices.DeleteFunc(machines, func(m *machinev1.Machine) bool {
		was := seen[m.Name]
		seen[m.Name] = true
		return was
	})
}
