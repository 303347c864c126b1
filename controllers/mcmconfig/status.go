package mcmconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capmcm/cluster-api-provider-mcm/api/bootstrap/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// report writes the status if it has changed, and emits an Event for what the user has to
// correct.
func (c *Controller) report(ctx context.Context, f *facts) error {
	changed := f.config.DeepCopy()
	changed.Status = statusOf(f)
	if equality.Semantic.DeepEqual(f.config.Status, changed.Status) {
		return nil
	}
	if err := patch.Status(ctx, c.Client, f.config, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MCMConfig: %w", err)
	}
	before := meta.FindStatusCondition(f.config.Status.Conditions, clusterv1.ReadyCondition)
	text := message.Truncate(f.message, message.Limit)
	if f.invalid && (before == nil || before.Reason != f.reason || before.Message != text) {
		c.Events.Event(changed, corev1.EventTypeWarning, f.reason, f.message)
	}
	return nil
}

// statusOf derives the status from what was seen.
func statusOf(f *facts) bootstrapv1.MCMConfigStatus {
	out := *f.config.Status.DeepCopy()
	set := func(condition metav1.Condition) {
		capi.SetCondition(&out.Conditions, condition, f.config.Generation, f.now)
	}
	set(capi.PausedCondition(f.paused))
	if f.paused != "" {
		return out
	}
	if f.created {
		out.DataSecretName = f.config.Name
		out.Initialization.DataSecretCreated = new(true)
	}
	if f.reason == "" && !f.created {
		return out // an error ended this pass, the next one will know
	}
	ready := metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: f.reason,
		Message: f.message,
	}
	if f.reason == "" {
		ready.Status, ready.Reason = metav1.ConditionTrue, bootstrapv1.ReasonDataSecretAvailable
	}
	set(ready)
	return out
}
