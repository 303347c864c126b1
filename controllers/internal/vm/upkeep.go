package vm

import (
	"cmp"
	"errors"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Upkeep is what a step found out that keeps what belongs to a VM, e.g. its tags, as it is to be.
// A failure of the cloud is in it: it is reported, and changes nothing else about the machine.
type Upkeep struct {
	Done       bool          // it is as it is to be; Reason and Message say so, if that is worth showing
	None       bool          // there is nothing to keep, or nothing to show any more
	RetryAfter time.Duration // when the step is worth calling again; 0: when class or Secret change
	Reason     string        // why it is not as it is to be; empty: there is nothing to show
	Message    string
}

// failed returns the Upkeep of a call to the cloud that has failed that many times in a row, since
// that time; a zero time is now. It shows what does not pass by itself, and describe puts that into
// words. An error that is not the cloud's is returned.
func (e *Engine) failed(err error, failures int, since time.Time, describe func(error) string) (Upkeep, error) {
	if !outcome.IsCloud(err) {
		return Upkeep{}, err
	}
	u := Upkeep{RetryAfter: cmp.Or(outcome.After(err, 0), outcome.Backoff(e.waited(since)))}
	if lasts(err, failures) {
		u.Reason, u.Message = outcome.Reason(err), describe(err)
	}
	return u, nil
}

// waited is how long ago that was; 0 for a zero time.
func (e *Engine) waited(since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return e.clock.Since(since)
}

// countFailures notes how a call for the VM of a machine has ended, and returns how many have failed in a
// row. A call that was not made because of the cloud's rate does not count.
func (e *Engine) countFailures(ownerID string, err error, counter func(*memory) *int) (failures int) {
	e.update(ownerID, func(n *memory) {
		count := counter(n)
		switch {
		case err == nil:
			*count = 0
		case !isRateBudget(err):
			*count++
		}
		failures = *count
	})
	return failures
}

// failureThreshold is how many calls may fail in a row, because the cloud is busy or away,
// before a condition shows it: a blip is worth no write.
const failureThreshold = 2

// lasts reports whether a failure of the cloud, the last of so many in a row, is worth a
// condition.
func lasts(err error, failures int) bool {
	c, ok := errors.AsType[*cloud.Error](err)
	if !ok || isRateBudget(err) {
		return false
	}
	return c.Code != cloud.Throttled && c.Code != cloud.Unavailable || failures >= failureThreshold
}

// isRateBudget reports whether a call has not been made because of the cloud's rate.
func isRateBudget(err error) bool {
	e, ok := errors.AsType[*cloud.Error](err)
	return ok && e.Reason == cloud.ReasonRateBudget
}
