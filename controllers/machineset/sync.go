package machineset

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// syncMachines carries what may change in a template without replacing machines to
// the Machines: the node template and the timeouts to those that live on, the
// kind of the class to all. Labels, annotations and the name of the class are
// never changed on an existing Machine.
func (c *Controller) syncMachines(ctx context.Context, s *scope) error {
	var errs []error
	left := burstReplicas
	for _, m := range s.machines {
		if inSync(m, s.set) {
			continue
		}
		if left--; left < 0 {
			s.requeueAfter(time.Millisecond)
			break
		}
		synced, err := c.patchMachine(ctx, s, m, func(m *machinev1.Machine) { syncMachine(m, s.set) })
		if client.IgnoreNotFound(err) != nil {
			errs = append(errs, err)
			continue
		}
		s.replaceMachine(synced)
	}
	return errors.Join(errs...)
}

func inSync(m *machinev1.Machine, set *machinev1.MachineSet) bool {
	template := &set.Spec.Template.Spec
	if !followsTemplate(m) {
		return m.Spec.Class.Kind == template.Class.Kind
	}
	return rollout.InSync(&m.Spec, template) &&
		providerIDForm(m, set) == m.Annotations[machinev1.ProviderIDFormAnnotation]
}

func syncMachine(m *machinev1.Machine, set *machinev1.MachineSet) {
	template := &set.Spec.Template.Spec
	if !followsTemplate(m) {
		m.Spec.Class.Kind = template.Class.Kind
		return
	}
	rollout.SyncInPlace(&m.Spec, template)
	setProviderIDForm(m, providerIDForm(m, set))
}

// providerIDForm returns the value that the annotation about the form of its
// providerID must have on a Machine: that of its set, or, once the set has none,
// the request to restore MCM's form. The Machine's controller removes that
// request when it is done.
func providerIDForm(m *machinev1.Machine, set *machinev1.MachineSet) string {
	switch current := m.Annotations[machinev1.ProviderIDFormAnnotation]; {
	case set.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode:
		return machinev1.ProviderIDFormNode
	case current == machinev1.ProviderIDFormNode:
		return machinev1.ProviderIDFormMCM
	default:
		return current
	}
}

func setProviderIDForm(m *machinev1.Machine, value string) {
	if value != m.Annotations[machinev1.ProviderIDFormAnnotation] {
		machinev1.SetAnnotation(m, machinev1.ProviderIDFormAnnotation, value)
	}
}

// followsTemplate reports whether a machine still gets the settings of the template.
func followsTemplate(m *machinev1.Machine) bool {
	phase := rollout.PhaseOf(m)
	return phase != machinev1.MachineFailed && phase != machinev1.MachineTerminating
}
