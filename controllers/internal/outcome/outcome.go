// Package outcome decides what follows from an error: what the queue does next, and
// what conditions and statuses show.
package outcome

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// How long a reaction waits where the cloud gives no hint.
const (
	conflictRetry  = 200 * time.Millisecond
	deniedRetry    = 3 * time.Minute
	invalidRetry   = 10 * time.Minute // a change of the class or the Secret comes sooner
	throttledRetry = 30 * time.Second

	shortestBackoff = 5 * time.Second
	longestBackoff  = 3 * time.Minute
)

// Of turns how a reconcile ended into what the queue does next. A wait of 0
// means: only when something changes. A conflict is silent: the cache was
// stale, and the next pass sees the change.
func Of(wait time.Duration, err error) (reconcile.Result, error) {
	if err == nil {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	if apierrors.IsConflict(err) {
		return reconcile.Result{RequeueAfter: conflictRetry}, nil
	}
	if wait := After(err, 0); wait > 0 {
		return reconcile.Result{RequeueAfter: wait}, nil
	}
	return reconcile.Result{}, err
}

// After returns when a failed cloud call is worth repeating; 0 leaves it to the
// queue's back-off. exhausted is the wait after a lack of capacity; 0 means 10
// minutes.
func After(err error, exhausted time.Duration) time.Duration {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return 0
	}
	switch e.Code {
	case cloud.Exhausted:
		if exhausted > 0 {
			return exhausted
		}
		return invalidRetry
	case cloud.Throttled:
		if e.RetryAfter > 0 {
			return e.RetryAfter // spread over the callers by whoever set it
		}
		return throttledRetry
	case cloud.Denied:
		return max(e.RetryAfter, deniedRetry)
	case cloud.Invalid:
		return invalidRetry
	case cloud.NotFound, cloud.Unavailable, cloud.Unknown, cloud.TokenUsed:
		return e.RetryAfter
	}
	return 0
}

// Backoff is the wait before the next try of an object of that age, where After
// has no answer: it grows with the time that trying has taken, without anything
// to remember.
func Backoff(age time.Duration) time.Duration {
	return min(max(age/4, shortestBackoff), longestBackoff)
}

// IsCloud reports whether err is about the machine rather than about the API server.
func IsCloud(err error) bool {
	_, ok := errors.AsType[*cloud.Error](err)
	return ok
}

// Reason is the condition reason for a failed call: what was found wrong with
// class, Secret, boot data, account or owner id, else what the cloud's code means.
func Reason(err error) string {
	if reason := inputReason(err); reason != "" {
		return reason
	}
	switch cloud.CodeOf(err) {
	case cloud.NotFound:
		return machinev1.ReasonVMNotFound
	case cloud.Invalid:
		return machinev1.ReasonInvalidSpec
	case cloud.Denied:
		return machinev1.ReasonCredentialsRefused
	case cloud.Exhausted:
		return machinev1.ReasonCapacityExhausted
	case cloud.Throttled:
		return machinev1.ReasonCloudThrottled
	case cloud.Unavailable:
		return machinev1.ReasonCloudUnavailable
	case cloud.TokenUsed:
		return machinev1.ReasonTokenUsed
	case cloud.Unknown:
		return machinev1.ReasonCloudError
	}
	return machinev1.ReasonCloudError
}

// inputReason is what was found wrong with class, Secret, boot data, account or owner id; empty if it
// was something else.
func inputReason(err error) string {
	e, ok := errors.AsType[*cloud.Error](err)
	if !ok {
		return ""
	}
	switch e.Reason {
	case cloud.ReasonWrongScope, cloud.ReasonUnprovenScope, machinev1.ReasonVMOfAnotherOwner,
		machinev1.ReasonClassNotFound, machinev1.ReasonClassDeleting, machinev1.ReasonSecretNotFound,
		machinev1.ReasonInvalidSecret, machinev1.ReasonInvalidUserData, infrav1.ReasonSecretNotAllowed,
		infrav1.ReasonBootstrapNotFound, infrav1.ReasonInvalidBootstrapData, infrav1.ReasonWaitingForBootstrap,
		infrav1.ReasonNoStaticAddresses, infrav1.ReasonPlainBootData:
		return e.Reason
	}
	return ""
}

// ResourceExhausted is MCM's code of a lack of capacity, which autoscalers read.
const ResourceExhausted = "ResourceExhausted"

// MCMCode is MCM's name of the error, as it stands in lastOperation.errorCode.
func MCMCode(err error) string {
	switch cloud.CodeOf(err) {
	case cloud.NotFound:
		return "NotFound"
	case cloud.Invalid:
		return "InvalidArgument"
	case cloud.Denied:
		return "PermissionDenied"
	case cloud.Exhausted:
		return ResourceExhausted
	case cloud.Throttled, cloud.Unavailable:
		return "Unavailable"
	case cloud.TokenUsed:
		return "Aborted"
	case cloud.Unknown:
		return "Internal"
	}
	return "Internal"
}
