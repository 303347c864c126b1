package inframachine

import (
	"slices"

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
