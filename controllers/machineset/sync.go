package machineset

import (
	"context"
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
)

// syncMachines carries what may change in a template without replacing machines to
// the Machines: the node template and the timeouts to those that live on, the
// kind of the class to all. Labels, annotations and the name of the class are
// never changed on an existing Machine.
func (c *Controller) syncMachines(ctx context.Context, s *scope) error {
	var failures []error
	left := burstReplicas
	for _, m := range s.machines {
		if inSync(m, s.set) {
			continue
		}
		if left--; left < 0 {
			s.requeueAfter(time.Millisecond)
			break
		}
		synced, err := c.patchMachine(ctx, s, m, func(m *machinev1.Machine) { syncSpec(m, s.set) })
		if client.IgnoreNotFound(err) != nil {
			failures = append(failures, err)
			continue
		}
		s.replaceMachine(synced)
	}
	return errors.Join(failures...)
}

func inSync(m *machinev1.Machine, set *machinev1.MachineSet) bool {
	template := &set.Spec.Template.Spec
	if m.Spec.Class.Kind != template.Class.Kind || followsTemplate(m) &&
		providerIDForm(m, set) != m.Annotations[machinev1.ProviderIDFormAnnotation] {
		return false
	}
	return !followsTemplate(m) || (equality.Semantic.DeepEqual(m.Spec.NodeTemplateSpec, template.NodeTemplateSpec) &&
		equality.Semantic.DeepEqual(configuration(&m.Spec), configuration(template)))
}

func syncSpec(m *machinev1.Machine, set *machinev1.MachineSet) {
	template := set.Spec.Template.Spec.DeepCopy()
	m.Spec.Class.Kind = template.Class.Kind
	if followsTemplate(m) {
		m.Spec.NodeTemplateSpec = template.NodeTemplateSpec
		m.Spec.MachineConfiguration = template.MachineConfiguration
		setProviderIDForm(m, providerIDForm(m, set))
	}
}

// providerIDForm is what annotation a Machine shall have about the form of its providerID:
// that of its set, and where the set has none any more, that MCM's form comes
// back. The Machine's controller removes that one once it has.
func providerIDForm(m *machinev1.Machine, set *machinev1.MachineSet) string {
	switch is := m.Annotations[machinev1.ProviderIDFormAnnotation]; {
	case set.Annotations[machinev1.ProviderIDFormAnnotation] == machinev1.ProviderIDFormNode:
		return machinev1.ProviderIDFormNode
	case is == machinev1.ProviderIDFormNode:
		return machinev1.ProviderIDFormMCM
	default:
		return is
	}
}

func setProviderIDForm(m *machinev1.Machine, value string) {
	if value != m.Annotations[machinev1.ProviderIDFormAnnotation] {
		setAnnotation(m, machinev1.ProviderIDFormAnnotation, value)
	}
}

// followsTemplate reports whether a machine's settings still matter.
func followsTemplate(m *machinev1.Machine) bool {
	phase := rollout.PhaseOf(m)
	return phase != machinev1.MachineFailed && phase != machinev1.MachineTerminating
}

// configuration of a spec; none is the same as an empty one.
func configuration(spec *machinev1.MachineSpec) machinev1.MachineConfiguration {
	if spec.MachineConfiguration == nil {
		return machinev1.MachineConfiguration{}
	}
	return *spec.MachineConfiguration
}
