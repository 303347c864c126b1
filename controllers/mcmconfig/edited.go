package mcmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// reportEdits sets the condition that reports whether a template was edited in
// place, which existing machines do not follow. It records the spec as it was first
// observed.
func (t *Templates) reportEdits(ctx context.Context, o *bootstrapv1.MCMConfigTemplate) error {
	edited, first, err := capi.Edited(o, o.Spec)
	if err != nil {
		return err
	}
	if first != "" {
		recorded := o.DeepCopy()
		machinev1.SetAnnotation(recorded, infrav1.SpecHashAnnotation, first)
		if err := patch.Object(ctx, t.Client, o, recorded); err != nil {
			return fmt.Errorf("record the spec of MCMConfigTemplate %s: %w", o.Name, err)
		}
		o = recorded
	}
	changed := o.DeepCopy()
	condition := capi.SpecUnchangedCondition(edited, "MCMConfigTemplate", "spec.template.spec.bootstrap.configRef")
	capi.SetCondition(&changed.Status.Conditions, condition, o.Generation, t.Clock.Now())
	if equality.Semantic.DeepEqual(o.Status, changed.Status) {
		return nil
	}
	if err := patch.Status(ctx, t.Client, o, changed); err != nil {
		return fmt.Errorf("write status of MCMConfigTemplate %s: %w", o.Name, err)
	}
	if edited {
		t.Events.Event(changed, corev1.EventTypeWarning, condition.Reason, condition.Message)
	}
	return nil
}
