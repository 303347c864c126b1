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
func (c *Controller) patchSet(ctx context.Context, p *pass, change func(*machinev1.MachineSet)) error {
	changed := p.set.DeepCopy()
	change(changed)
	if equality.Semantic.DeepEqual(p.set.ObjectMeta, changed.ObjectMeta) {
		return nil
	}
	patch := client.MergeFromWithOptions(p.set, client.MergeFromWithOptimisticLock{})
	if err := c.Client.Patch(ctx, changed, patch); err != nil {
		return fmt.Errorf("patch MachineSet: %w", err)
	}
	c.marks.Wrote(changed)
	p.set = changed
	return nil
}

// patchMachine changes a Machine, writes that if it differs, and returns the
// newest version. locked makes it fail on a stale Machine.
func (c *Controller) patchMachine(ctx context.Context, p *pass, m *machinev1.Machine, change func(*machinev1.Machine),
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
	p.memory.wrote(changed, p.now)
	return changed, nil
}

// finalize puts the finalizer onto the set before it makes anything.
func (c *Controller) finalize(ctx context.Context, p *pass) error {
	return c.patchSet(ctx, p, func(s *machinev1.MachineSet) { controllerutil.AddFinalizer(s, machinev1.Finalizer) })
}

// tellMachines emits one Event for a batch of machines.
func (c *Controller) tellMachines(p *pass, reason, one, many string, names []string) {
	switch len(names) {
	case 0:
	case 1:
		c.Events.Event(p.set, corev1.EventTypeNormal, reason, one+": "+names[0])
	default:
		c.Events.Event(p.set, corev1.EventTypeNormal, reason, shorten(many+": "+strings.Join(names, ", ")))
	}
}

// shorten keeps a text within what the API allows for the message of an Event.
func shorten(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " …"
}
