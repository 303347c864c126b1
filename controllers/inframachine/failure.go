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
)

// failureThreshold is how many looks at a VM that was made may fail in a row before a
// word is said: a blip is worth no write.
const failureThreshold = 2

// callFailed notes why the cloud could not be asked, or refused, and when it is worth
// trying again. A machine whose VM was made stays as ready as it was: an outage of
// the cloud's API is no outage of the VM.
func (c *Controller) callFailed(f *facts, err error) error {
	if apierrors.IsConflict(err) || !isCloud(err) {
		return err // the API server's fault, not the cloud's: nothing to tell about the machine
	}
	n := c.updateLookups(f.object, func(n *lookups) { n.failures++ })
	requeueAfter(f, c.retryAfter(f, err, n))
	reason := reasonOf(err)
	if reason == infrav1.ReasonWaitingForClass {
		if f.now.Sub(f.object.CreationTimestamp.Time) > unprotectedGrace {
			f.vmCondition = conditionFalse(reason, message(err))
		}
		return nil
	}
	if !provisioned(f.object) {
		f.vmCondition = conditionFalse(reason, message(err))
	} else if n.failures < failureThreshold {
		return nil
	}
	reportCloudFailure(f, conditionFalse(reason, message(err)))
	return nil
}

// reportCloudFailure puts a word about a failed call where it belongs.
func reportCloudFailure(f *facts, w *condition) {
	switch w.reason {
	case machinev1.ReasonCredentialsRefused, machinev1.ReasonSecretNotFound, machinev1.ReasonInvalidSecret, infrav1.ReasonSecretNotAllowed:
		f.credentialsCondition = w
	case machinev1.ReasonCloudThrottled, machinev1.ReasonCloudUnavailable, machinev1.ReasonCloudError:
		f.cloudCondition = w
	case machinev1.ReasonClassNotFound, machinev1.ReasonInvalidSpec:
		if provisioned(f.object) { // else the VM's own condition says it
			f.cloudCondition = w
		}
	}
}

// unprotectedGrace is how long a class usually needs at most to get its finalizer;
// before that, a word about it would be a write.
const unprotectedGrace = 10 * time.Second

func (c *Controller) retryAfter(f *facts, err error, n lookups) time.Duration {
	if wait := outcome.After(err, c.Options.ResourceExhaustedRetry); wait > 0 {
		return wait
	}
	if provisioned(f.object) {
		return min(shortRetry<<min(n.failures-1, 10), longRetry)
	}
	return min(max(f.now.Sub(f.object.CreationTimestamp.Time)/4, shortRetry), longRetry)
}

// callSucceeded notes that the cloud has answered.
func (c *Controller) callSucceeded(f *facts) {
	c.updateLookups(f.object, func(n *lookups) { n.failures = 0 })
	f.cloudCondition = conditionTrue(infrav1.ReasonReachable)
	f.credentialsCondition = conditionTrue(infrav1.ReasonAccepted)
}

// isCloud reports whether err tells about the machine rather than about the API server.
func isCloud(err error) bool {
	_, ok := errors.AsType[*cloud.Error](err)
	return ok
}

// reasonOf is the condition reason for a failed call: what was found wrong with
// class, Secret or boot data, else what the cloud's code means.
func reasonOf(err error) string {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return outcome.Reason(err)
	}
	switch e.Reason {
	case machinev1.ReasonClassNotFound, machinev1.ReasonClassDeleting, machinev1.ReasonSecretNotFound, machinev1.ReasonInvalidSecret,
		infrav1.ReasonSecretNotAllowed, infrav1.ReasonBootstrapNotFound, infrav1.ReasonInvalidBootstrapData,
		infrav1.ReasonWaitingForBootstrap, infrav1.ReasonWaitingForClass:
		return e.Reason
	}
	return outcome.Reason(err)
}

// message is what a condition says about a failed call. What is sold out is
// named first, since that is what its reader looks for.
func message(err error) string {
	if e, ok := errors.AsType[*cloud.Error](err); ok && e.Code == cloud.Exhausted && e.Offering != nil {
		return fmt.Sprintf("%s is exhausted: %s", e.Offering, e)
	}
	return err.Error()
}
