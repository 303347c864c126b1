package inframachine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
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

// fallBack records with which class the machine goes on, after the cloud had no capacity for
// its present one, or has refused that and it is not the first, and reports whether there is
// one. Nothing is asked for with it before switchClass has found nothing of the present one.
func (c *Controller) fallBack(ctx context.Context, p *pass, refused error) (bool, error) {
	e, ok := errors.AsType[*cloud.Error](refused)
	was := p.usedClass()
	if !ok || p.object.Spec.ProviderID != "" || !refusesClass(e, was != p.object.Spec.MachineClassRef.Name) {
		return false, nil
	}
	c.Fallback.Refused(p.offer(), e.Error())
	id := machinev1.OwnerID(p.object)
	next, ok := c.Fallback.Next(p.seen.pool, id, was)
	if !ok || !c.Fallback.Begin(next.Offer, id) {
		return false, nil
	}
	err := c.patch(ctx, p, func(o *infrav1.MCMMachine) {
		machinev1.SetAnnotation(o, machinev1.NextClassAnnotation, next.Name)
	})
	if err != nil {
		return false, fmt.Errorf("record next class %s: %w", next.Name, err)
	}
	p.did.events = append(p.did.events, kubeEvent{
		corev1.EventTypeNormal, machinev1.EventClassFallback,
		fmt.Sprintf("MachineClass %s cannot be used: %s; falling back to MachineClass %s", was, e, next.Name),
	})
	p.did.vmCondition = switching(was, next.Name)
	requeueAfter(p, time.Millisecond)
	return true, nil
}

// refusesClass reports whether another class may serve after e. The first class is to be corrected,
// and boot data is that of one machine, and says nothing about its class.
func refusesClass(e *cloud.Error, further bool) bool {
	if e.Reason == infrav1.ReasonPlainBootData {
		return false
	}
	return e.Code == cloud.Exhausted || further && (e.Code == cloud.Invalid || e.Code == cloud.Denied)
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
	return conditionFalse(infrav1.ReasonClassChanged, fmt.Sprintf(
		"MachineClass %s follows once nothing is left of the VM requested from MachineClass %s", to, from))
}
