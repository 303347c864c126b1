package driverkit

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Attempts keep requests for VMs from being repeated while an earlier one of the same
// attempt may still show its VM. A cloud without an idempotency key (Traits.CreateKey)
// needs them. They are of one account, and safe for concurrent use.
//
// Before each request they write a checkpoint, so that another process knows of it. A VM
// that the cloud made is shown after the settle time at the latest.
type Attempts struct {
	settle time.Duration
	now    func() time.Time
	sent   *Cache[string, sent] // by attempt
}

// sent is what this process knows of the last request of an attempt.
type sent struct {
	noted   time.Time // intent.At
	ended   time.Time // when it was answered, or when it was found in the checkpoint
	settled bool      // it was refused or never sent, or its VM was shown
}

// intent is the checkpoint: a VM is about to be asked for, or has an id and is not shown.
type intent struct {
	Token string    `json:"token"`
	At    time.Time `json:"at"` // of the request
	ID    string    `json:"server"`
}

// NewAttempts returns Attempts for a cloud whose Traits.Settle is settle.
func NewAttempts(settle time.Duration, now func() time.Time) *Attempts {
	return &Attempts{settle: settle, now: now, sent: NewCache[string, sent](CacheOptions{Now: now})}
}

// Pending returns for how long after looked a VM may still come of an earlier request of
// this attempt, and its id if the cloud has given one. It is for a look that began at that
// time and found no VM. Another request is safe when wait is 0 or less.
//
// The time of a request of another process counts from when this one first reads of it,
// because their clocks differ.
func (a *Attempts) Pending(r cloud.CreateRequest, looked time.Time) (id string, wait time.Duration) {
	noted := intentOf(r)
	last, known := a.sent.Known(attempt(r))
	if !noted.At.IsZero() && (!known || !noted.At.Equal(last.noted)) {
		last, known = sent{noted: noted.At, ended: looked}, true
		a.sent.Put(attempt(r), last)
	}
	if !known || last.settled {
		return noted.ID, 0
	}
	return noted.ID, a.settle - looked.Sub(last.ended)
}

// Send writes a checkpoint and then calls send, which asks for the VM and returns its id.
// When the checkpoint cannot be written, send is not called.
func (a *Attempts) Send(ctx context.Context, op string, r cloud.CreateRequest,
	send func(context.Context) (id string, err error),
) (id string, err error) {
	at := a.now().UTC()
	if err := Note(ctx, op, r, intent{Token: r.Token, At: at}); err != nil {
		return "", err
	}
	id, err = send(ctx)
	a.sent.Put(attempt(r), sent{noted: at, ended: a.now(), settled: err != nil && !Uncertain(err)})
	return id, err
}

// Shown notes that the cloud shows the VM of the last request, so that another request is
// safe once that VM has gone.
func (a *Attempts) Shown(r cloud.CreateRequest) {
	if last, known := a.sent.Known(attempt(r)); known {
		last.settled = true
		a.sent.Put(attempt(r), last)
	}
}

// Accepted notes the id of a VM that the cloud has accepted and does not show yet. That
// the checkpoint fails is no error: the caller's answer has the id too.
func (a *Attempts) Accepted(ctx context.Context, op string, r cloud.CreateRequest, id string) {
	_ = Note(ctx, op, r, intent{Token: r.Token, At: a.now().UTC(), ID: id}) // see above
}

// Wait returns the error of an attempt that has to wait before it may ask again.
func (a *Attempts) Wait(op string, wait time.Duration) *cloud.Error {
	const look = 3 * time.Second
	e := cloud.Errorf(cloud.Unavailable, op, "AnswerLost",
		"the answer to the last request for the VM was lost, and the cloud shows none; it is requested again in %v unless "+
			"it appears", max(wait, time.Second).Round(time.Second))
	e.RetryAfter = min(wait, look)
	return e
}

// intentOf returns the checkpoint of this attempt, or a zero one.
func intentOf(r cloud.CreateRequest) intent {
	var i intent
	if json.Unmarshal([]byte(r.State), &i) != nil || i.Token != r.Token {
		return intent{}
	}
	return i
}

func attempt(r cloud.CreateRequest) string { return r.OwnerID + " " + r.Name + " " + r.Token }

// Note writes a checkpoint as JSON. When it fails, what was to follow must not happen.
func Note(ctx context.Context, op string, r cloud.CreateRequest, state any) error {
	text, err := json.Marshal(state)
	if err == nil {
		err = r.Checkpoint(ctx, string(text))
	}
	if err != nil {
		return cloud.Errorf(cloud.Unavailable, op, "NoCheckpoint", "what is about to happen cannot be recorded: %w", err)
	}
	return nil
}

// uncertain is the cause of a failed call that the cloud may have carried out.
type uncertain struct{ error }

// Unwrap returns the cause.
func (u uncertain) Unwrap() error { return u.error }

// certain is the cause of a call that failed before it was sent, whatever the cause says of
// another call.
type certain struct{ error }

// Unwrap returns the cause.
func (c certain) Unwrap() error { return c.error }

// Uncertain reports whether the cloud may carry out the call that failed with err, or has
// done so. It knows the errors that this package returns.
func Uncertain(err error) bool {
	_, found := errors.AsType[uncertain](err)
	_, unsent := errors.AsType[certain](err)
	return found && !unsent
}

// mayHaveArrived reports whether the cloud may have got a request that failed with err:
// all but those for which no connection was made.
func mayHaveArrived(err error) bool {
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}
