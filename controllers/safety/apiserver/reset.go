package apiserver

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/live"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

const (
	eventReset       = "HealthTimeoutReset"
	descriptionReset = "Machine Health Timeout was reset due to APIServer being unreachable"
)

// reset makes all Unknown machines Running, so that their health timeouts start again.
// An error means that some still have to be reset. The machines are read from the API
// server, since the caches are stale after the outage.
func (c *Controller) reset(ctx context.Context) error {
	var failed []error
	err := live.Pages(ctx, c.Live, func(page *machinev1.MachineList) {
		for i := range page.Items {
			failed = append(failed, c.resetOne(ctx, &page.Items[i]))
		}
	}, client.InNamespace(c.Namespace))
	return errors.Join(append(failed, err)...)
}

// resetOne resets a machine that is Unknown, unless it is held: then no controller acts
// on its phase. A permanent error is logged and ignored: one such machine must not keep
// the manager frozen.
func (c *Controller) resetOne(ctx context.Context, m *machinev1.Machine) error {
	if m.Status.CurrentStatus.Phase != machinev1.MachineUnknown || !m.DeletionTimestamp.IsZero() || machinev1.Held(m) {
		return nil
	}
	base := m.DeepCopy()
	now := metav1.NewTime(c.Clock.Now())
	m.Status.CurrentStatus.Phase = machinev1.MachineRunning
	m.Status.CurrentStatus.TimeoutActive = false
	m.Status.CurrentStatus.LastUpdateTime = now
	m.Status.LastOperation = machinev1.LastOperation{
		Description: descriptionReset, LastUpdateTime: now,
		State: machinev1.MachineStateSuccessful, Type: machinev1.MachineOperationHealthCheck,
	}
	err := patch.Status(ctx, c.Client, base, m)
	switch {
	case err == nil:
		if c.Events != nil {
			c.Events.Event(m, corev1.EventTypeNormal, eventReset, descriptionReset)
		}
		return nil
	case passes(err):
		return fmt.Errorf("machine %s/%s: %w", m.Namespace, m.Name, err)
	default:
		ctrl.LoggerFrom(ctx).Error(err, "Reset health timeout", "Machine", client.ObjectKeyFromObject(m))
		return nil
	}
}
