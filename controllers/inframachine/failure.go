package inframachine

import (
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/vm"
)

// failureThreshold is how many looks at a VM that was made may fail in a row before a
// condition shows it: a blip is worth no write.
const failureThreshold = 2

// callFailed notes why the cloud could not be asked, or refused, and when it is worth
// trying again. A machine whose VM was made stays as ready as it was: an outage of
// the cloud's API is no outage of the VM.
func (c *Controller) callFailed(p *pass, err error) error {
	if apierrors.IsConflict(err) || !outcome.IsCloud(err) {
		return err // the API server failed, not the cloud: nothing to report about the machine
	}
	n := c.updateLookups(p.object, func(n *lookups) { n.failures++ })
	requeueAfter(p, c.retryAfter(p, err, n))
	reason := reasonOf(err)
	if reason == infrav1.ReasonWaitingForClass {
		if p.seen.now.Sub(p.object.CreationTimestamp.Time) > unprotectedGrace {
			p.did.vmCondition = conditionFalse(reason, failureMessage(err))
		}
		return nil
	}
	if !provisioned(p.object) {
		p.did.vmCondition = conditionFalse(reason, failureMessage(err))
	} else if n.failures < failureThreshold {
		return nil
	}
	reportCloudFailure(p, conditionFalse(reason, failureMessage(err)))
	return nil
}

// reportCloudFailure sets the condition that a failed call belongs to.
func reportCloudFailure(p *pass, w *condition) {
	switch w.reason {
	case machinev1.ReasonCredentialsRefused, machinev1.ReasonSecretNotFound, machinev1.ReasonInvalidSecret,
		infrav1.ReasonSecretNotAllowed, cloud.ReasonWrongScope, cloud.ReasonUnprovenScope:
		p.did.credentialsCondition = w
	case machinev1.ReasonCloudThrottled, machinev1.ReasonCloudUnavailable, machinev1.ReasonCloudError,
		machinev1.ReasonVMOfAnotherOwner:
		p.did.cloudCondition = w
	case machinev1.ReasonClassNotFound, machinev1.ReasonInvalidSpec:
		if provisioned(p.object) { // else the VM's own condition shows it
			p.did.cloudCondition = w
		}
	}
}

// unprotectedGrace is how long a class usually needs at most to get its finalizer;
// before that, a condition about it would be a write.
const unprotectedGrace = 10 * time.Second

func (c *Controller) retryAfter(p *pass, err error, n lookups) time.Duration {
	if wait := outcome.After(err, c.Options.ResourceExhaustedRetry); wait > 0 {
		return wait
	}
	if provisioned(p.object) {
		return min(shortRetry<<min(n.failures-1, 10), longRetry)
	}
	return outcome.Backoff(p.seen.now.Sub(p.object.CreationTimestamp.Time))
}

// callSucceeded notes that the cloud has answered.
func (c *Controller) callSucceeded(p *pass) {
	c.updateLookups(p.object, func(n *lookups) { n.failures = 0 })
	p.did.cloudCondition = conditionTrue(infrav1.ReasonReachable)
	p.did.credentialsCondition = conditionTrue(infrav1.ReasonAccepted)
}

// reasonOf is the condition reason for a failed call.
func reasonOf(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Reason == vm.ReasonUnprotected {
		return infrav1.ReasonWaitingForClass
	}
	return outcome.Reason(err)
}

// failureMessage is the message of a condition about a failed call. An exhausted offering
// comes first: that is what its reader looks for.
func failureMessage(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Exhausted && e.Offering != nil {
		return fmt.Sprintf("%s is exhausted: %s", e.Offering, e)
	}
	return err.Error()
}
