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
func (c *Controller) report(ctx context.Context, s *scope) error {
	changed := s.config.DeepCopy()
	changed.Status = statusOf(s)
	if equality.Semantic.DeepEqual(s.config.Status, changed.Status) {
		return nil
	}
	if err := patch.Status(ctx, c.Client, s.config, changed); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("write status of MCMConfig: %w", err)
	}
	before := meta.FindStatusCondition(s.config.Status.Conditions, clusterv1.ReadyCondition)
	text := message.Truncate(s.message, message.Limit)
	if s.invalid && (before == nil || before.Reason != s.reason || before.Message != text) {
		c.Events.Event(changed, corev1.EventTypeWarning, s.reason, s.message)
	}
	return nil
}

// statusOf derives the status from what was seen.
func statusOf(s *scope) bootstrapv1.MCMConfigStatus {
	out := *s.config.Status.DeepCopy()
	set := func(condition metav1.Condition) {
		capi.SetCondition(&out.Conditions, condition, s.config.Generation, s.now)
	}
	set(capi.PausedCondition(s.paused))
	if s.paused != "" {
		return out
	}
	if s.created {
		out.DataSecretName = s.config.Name
		out.Initialization.DataSecretCreated = new(true)
	}
	if s.reason == "" && !s.created {
		return out // an error ended this pass, the next one will know
	}
	ready := metav1.Condition{
		Type: clusterv1.ReadyCondition, Status: metav1.ConditionFalse, Reason: s.reason,
		Message: s.message,
	}
	if s.reason == "" {
		ready.Status, ready.Reason = metav1.ConditionTrue, bootstrapv1.ReasonDataSecretAvailable
	}
	set(ready)
	return out
}
