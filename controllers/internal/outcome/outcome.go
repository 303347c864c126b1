// Package outcome says what follows from an error: what the queue does next,
// and what the outside world is told.
package outcome

import (
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// How long a reaction waits where the cloud gives no hint.
const (
	conflictRetry  = 200 * time.Millisecond
	deniedRetry    = 3 * time.Minute
	invalidRetry   = 10 * time.Minute // a change of the class or the Secret comes sooner
	throttledRetry = 30 * time.Second
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

// After says when a failed cloud call is worth repeating; 0 leaves it to the
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

// Reason is the condition reason for a failed cloud call.
func Reason(err error) string {
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
