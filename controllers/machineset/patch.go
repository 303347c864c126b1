package machineset

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// patchSet changes metadata of the set and patches it if it differs. It fails on
// a stale set: what is decided from it must not be decided twice.
func (c *Controller) patchSet(ctx context.Context, s *scope, change func(*machinev1.MachineSet)) error {
	changed, err := patch.Change(ctx, c.Client, s.set, change)
	if err != nil {
		return fmt.Errorf("patch MachineSet: %w", err)
	}
	s.set = changed
	return nil
}

// patchMachine changes a Machine, patches it if it differs, and returns the newest
// version. With client.MergeFromWithOptimisticLock it fails on a stale Machine.
func (c *Controller) patchMachine(ctx context.Context, s *scope, m *machinev1.Machine, change func(*machinev1.Machine),
	locks ...client.MergeFromOption,
) (*machinev1.Machine, error) {
	changed := m.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(m.ObjectMeta, changed.ObjectMeta) && equality.Semantic.DeepEqual(m.Spec, changed.Spec) {
		return m, nil
	}
	if err := c.Client.Patch(ctx, changed, client.MergeFromWithOptions(m, locks...)); err != nil {
		return m, fmt.Errorf("patch Machine %s: %w", m.Name, err)
	}
	s.memory.machines.Updated(changed, s.now)
	return changed, nil
}

// emitMachinesEvent emits one Event for a batch of machines.
func (c *Controller) emitMachinesEvent(s *scope, reason, one, many string, names []string) {
	switch len(names) {
	case 0:
	case 1:
		c.Events.Event(s.set, corev1.EventTypeNormal, reason, one+": "+names[0])
	default:
		c.Events.Event(s.set, corev1.EventTypeNormal, reason,
			message.Truncate(many+": "+strings.Join(names, ", "), message.Limit))
	}
}

// emitFailureEvent emits an Event for an error unless it is a conflict, which
// only means that the cache is stale.
func (c *Controller) emitFailureEvent(s *scope, reason, prefix string, err error) {
	if !apierrors.IsConflict(err) {
		c.Events.Event(s.set, corev1.EventTypeWarning, reason,
			message.Truncate(prefix+": "+err.Error(), message.Limit))
	}
}
