package inframachine

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
)

// usedClass is the name of the class that the VM is of, or will be.
func (p *pass) usedClass() string {
	if p.seen.chosen != "" && p.object.Annotations[infrav1.MadeFromAnnotation] == "" {
		return p.seen.chosen
	}
	return className(p.object)
}

// offer is what the machine asks the cloud for.
func (p *pass) offer() fallback.Offer {
	return fallback.OfferOf(p.seen.class, p.object.Namespace, p.usedClass(), p.seen.machine.Spec.FailureDomain)
}

// beginTry reports whether the machine may ask for its class now. It may not, where another
// machine has just begun to try that exhausted class again. What has been asked for already
// is always asked for again: its VM may be there.
func (c *Controller) beginTry(p *pass) bool {
	return c.Fallback.Begin(p.offer(), machinev1.OwnerID(p.object)) || createStarted(p.object) ||
		p.seen.chosen == ""
}

// fallBack records with which class the machine goes on, after the cloud has refused its present one,
// and reports whether there is one. Nothing is asked for with it before switchClass has found
// nothing of the present one.
func (c *Controller) fallBack(ctx context.Context, p *pass, failure error) (bool, error) {
	was := p.usedClass()
	refusal := fallback.Refusal(failure, p.object.Spec.ClassNames(), was)
	if refusal == nil || p.object.Spec.ProviderID != "" {
		return false, nil
	}
	next, ok := c.Fallback.Leave(p.offer(), refusal, p.seen.pool, machinev1.OwnerID(p.object), was)
	if !ok {
		return false, nil
	}
	err := c.patch(ctx, p, func(o *infrav1.MCMMachine) {
		machinev1.SetAnnotation(o, machinev1.NextClassAnnotation, next.Name)
	})
	if err != nil {
		return false, fmt.Errorf("record next class %s: %w", next.Name, err)
	}
	p.did.events = append(p.did.events, kubeEvent{
		corev1.EventTypeNormal, machinev1.EventClassFallback, fallback.LeaveMessage(was, next.Name, refusal),
	})
	p.did.vmCondition = switching(was, next.Name)
	requeueAfter(p, time.Millisecond)
	return true, nil
}

// allExhausted adds to a condition why no other class is used.
func (c *Controller) allExhausted(p *pass) {
	others := c.Fallback.Describe(p.seen.pool, p.usedClass())
	if p.did.vmCondition != nil && p.did.vmCondition.reason == machinev1.ReasonCapacityExhausted && others != "" {
		p.did.vmCondition.message += "; other classes: " + others
	}
}

// switchTarget is the class that a machine has to go on with; empty if it is that which was
// asked for.
func switchTarget(o *infrav1.MCMMachine) string {
	made, names := o.Annotations[infrav1.MadeFromAnnotation], o.Spec.ClassNames()
	next := o.Annotations[machinev1.NextClassAnnotation]
	switch {
	case next != "" && next != made && slices.Contains(names, next):
		return next
	case !slices.Contains(names, made):
		return names[0]
	}
	return ""
}

func switching(from, to string) *condition {
	return conditionFalse(infrav1.ReasonClassChanged, fallback.SwitchMessage(from, to))
}
