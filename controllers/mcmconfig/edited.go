package mcmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
)

// tellEdits says of a template whether it was edited in place, which no machine
// that exists follows. It notes the spec as it was seen first.
func (t *Templates) tellEdits(ctx context.Context, o *bootstrapv1.MCMConfigTemplate) error {
	edited, first, err := capi.Edited(o, o.Spec)
	if err != nil {
		return err
	}
	if first != "" {
		noted := o.DeepCopy()
		capi.SetAnnotation(noted, infrav1.SpecHashAnnotation, first)
		if err := t.Client.Patch(ctx, noted, client.MergeFromWithOptions(o,
			client.MergeFromWithOptimisticLock{})); err != nil {
			return fmt.Errorf("note the spec of MCMConfigTemplate %s: %w", o.Name, err)
		}
		o = noted
	}
	changed := o.DeepCopy()
	says := unchanged(edited)
	capi.SetCondition(&changed.Status.Conditions, says, o.Generation, t.Clock.Now())
	if equality.Semantic.DeepEqual(o.Status, changed.Status) {
		return nil
	}
	if err := t.Client.Status().Patch(ctx, changed,
		client.MergeFromWithOptions(o, client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write status of MCMConfigTemplate %s: %w", o.Name, err)
	}
	if edited {
		t.Events.Event(changed, corev1.EventTypeWarning, says.Reason, says.Message)
	}
	return nil
}

func unchanged(edited bool) metav1.Condition {
	if !edited {
		return metav1.Condition{
			Type: bootstrapv1.SpecUnchangedCondition, Status: metav1.ConditionTrue,
			Reason: bootstrapv1.ReasonUnchanged,
		}
	}
	return metav1.Condition{
		Type: bootstrapv1.SpecUnchangedCondition, Status: metav1.ConditionFalse, Reason: bootstrapv1.ReasonEditedInPlace,
		Message: "spec.template was edited in place: machines that exist do not follow, and new ones differ from them; " +
			"undo the change, and name a new MCMConfigTemplate in spec.template.spec.bootstrap.configRef of the " +
			"MachineDeployment to roll it out",
	}
}
