package inplaceupdate

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// report shows on the MCMMachine that an update has failed and why, or that a
// later one, or the same one after all, has not.
func (e *Extension) report(ctx context.Context, u *update, a answer) error {
	want := metav1.Condition{
		Type: infrav1.UpdatedInPlaceCondition, Status: metav1.ConditionTrue,
		Reason: infrav1.ReasonUpdatedInPlace,
	}
	if a.failed != "" {
		want.Status, want.Reason, want.Message = metav1.ConditionFalse, a.failed, message.Truncate(a.message, message.Limit)
	}
	shown := u.condition(infrav1.UpdatedInPlaceCondition)
	switch {
	case a.wait > 0, shown == nil && a.failed == "":
		return nil
	case shown != nil && shown.Status == want.Status && shown.Reason == want.Reason && shown.Message == want.Message:
		return nil
	}
	changed := u.infra.DeepCopy()
	capi.SetCondition(&changed.Status.Conditions, want, u.infra.Generation, u.now)
	if err := patch.Status(ctx, e.Client, u.infra, changed); err != nil {
		return fmt.Errorf("write status of MCMMachine %s: %w", u.infra.Name, err)
	}
	if a.failed != "" {
		e.Events.Event(u.machine, corev1.EventTypeWarning, a.failed, a.message)
	}
	return nil
}

// record writes down what the node has been made of, so that a later update of
// what is on the Node alone does not ask the agent.
func (e *Extension) record(ctx context.Context, u *update) error {
	if u.infra.Annotations[infrav1.UpdatedInPlaceToAnnotation] == u.target {
		return nil
	}
	changed := u.infra.DeepCopy()
	machinev1.SetAnnotation(changed, infrav1.UpdatedInPlaceToAnnotation, u.target)
	if err := e.Client.Patch(ctx, changed, client.MergeFrom(u.infra)); err != nil {
		return fmt.Errorf("annotate MCMMachine %s: %w", u.infra.Name, err)
	}
	u.infra = changed
	return nil
}
