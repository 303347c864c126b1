package machineset

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// patchSet changes metadata of the set and writes that if it differs. It fails
// on a stale set: what is decided from it must not be decided twice.
func (c *Controller) patchSet(ctx context.Context, s *scope, change func(*machinev1.MachineSet)) error {
	changed := s.set.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(s.set.ObjectMeta, changed.ObjectMeta) {
		return nil
	}
	patch := client.MergeFromWithOptions(s.set, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("patch MachineSet: %w", err)
	}
	c.marks.Wrote(changed)
	s.set = changed
	return nil
}

// patchMachine changes a Machine, writes that if it differs, and returns the
// newest version. locked makes it fail on a stale Machine.
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
	s.memory.recordWrite(changed, s.now)
	return changed, nil
}

// addFinalizer puts the finalizer onto the set before it makes anything.
func (c *Controller) addFinalizer(ctx context.Context, s *scope) error {
	return c.patchSet(ctx, s, func(set *machinev1.MachineSet) { controllerutil.AddFinalizer(set, machinev1.Finalizer) })
}

// emitMachinesEvent emits one Event for a batch of machines.
func (c *Controller) emitMachinesEvent(s *scope, reason, one, many string, names []string) {
	switch len(names) {
	case 0:
	case 1:
		c.Events.Event(s.set, corev1.EventTypeNormal, reason, one+": "+names[0])
	default:
		c.Events.Event(s.set, corev1.EventTypeNormal, reason, truncate(many+": "+strings.Join(names, ", ")))
	}
}

// truncate keeps a text within what the API allows for the message of an Event.
func truncate(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
