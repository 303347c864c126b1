package openstack

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/gophercloud/gophercloud/v2"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// note is the driver's checkpoint: it is about to ask for a server, or it has asked
// and Nova does not show the server yet. Nova takes no idempotency key, so a request
// whose outcome is unknown must not be repeated before its server would be shown.
// Ports and volumes need no note: they are made with the owner's id, so Delete and
// the orphan collector find a second one.
type note struct {
	Token  string    `json:"token"`
	At     time.Time `json:"at"`     // of the request
	Server string    `json:"server"` // id; empty until Nova has accepted the request
}

// noteOf returns the checkpoint of this attempt, or a zero note.
func noteOf(r cloud.CreateRequest) note {
	var n note
	if json.Unmarshal([]byte(r.State), &n) != nil || n.Token != r.Token {
		return note{}
	}
	return n
}

// write persists the note.
func (n note) write(ctx context.Context, r cloud.CreateRequest) *cloud.Error {
	text, err := json.Marshal(n)
	if err == nil {
		err = r.Checkpoint(ctx, string(text))
	}
	if err != nil {
		return cloud.Errorf(cloud.Unavailable, opCreate, "NoCheckpoint",
			"the intent to create a server cannot be recorded: %w", err)
	}
	return nil
}

// server is what is known of a server that Nova has accepted.
func (n note) server(c *config, r cloud.CreateRequest) server {
	return server{ID: n.Server, Name: r.Name, Status: statusBuild, Created: n.At, Metadata: c.metadata(r)}
}

// request is what this process knows of the last request for a server of an attempt.
type request struct {
	note  time.Time // note.At
	ended time.Time // when it was sent, failed, or was found in the checkpoint
	shown bool      // nothing more can come of it: it was refused, never sent, or its server was shown
}

// forever is an age that nothing reaches.
const forever = 1 << 62 * time.Nanosecond

// unsettled returns for how long after looked a server may still come of an earlier
// request of this attempt; zero or less when another request is safe. The time of a
// request that another process sent counts from when this process first reads of it,
// because the clocks of two processes differ.
func (a *account) unsettled(r cloud.CreateRequest, looked time.Time) time.Duration {
	key := attemptOf(r)
	last, known := a.requests.get(key, looked, forever)
	if n := noteOf(r); !n.At.IsZero() && (!known || !n.At.Equal(last.note)) {
		last, known = request{note: n.At, ended: looked}, true
		a.requests.put(key, last, looked)
	}
	if !known || last.shown {
		return 0
	}
	return settleTime - looked.Sub(last.ended)
}

// attemptOf is the key of an attempt.
func attemptOf(r cloud.CreateRequest) string { return r.OwnerID + " " + r.Name + " " + r.Token }

// answerLost is the error of an attempt that has to wait before it may ask again.
func answerLost(wait time.Duration) *cloud.Error {
	e := cloud.Errorf(cloud.Unavailable, opCreate, "AnswerLost",
		"the answer to the last request for the server was lost and Nova shows none; it is requested again in %v unless it "+
			"appears", max(wait, time.Second).Round(time.Second))
	e.RetryAfter = min(wait, waitForBuild)
	return e
}

// post asks Nova for a server and returns its id. It records the intent before.
func (a *account) post(ctx context.Context, c *config, r cloud.CreateRequest, body map[string]any) (string,
	*cloud.Error,
) {
	sent := note{Token: r.Token, At: a.now().UTC()}
	if err := sent.write(ctx, r); err != nil {
		return "", err
	}
	var out struct {
		Server struct {
			ID string `json:"id"`
		} `json:"server"`
	}
	err := a.ask(ctx, opCreate, call{
		method: http.MethodPost, of: nova, path: "servers", body: body,
		out: &out,
	})
	if err == nil && out.Server.ID == "" {
		err = cloud.Errorf(cloud.Unavailable, opCreate, "BrokenAnswer", "%w",
			uncertain{errors.New("the cloud's answer names no server")})
	}
	_, unsure := errors.AsType[uncertain](errorOf(err))
	now := a.now()
	a.requests.put(attemptOf(r), request{note: sent.At, ended: now, shown: err != nil && !unsure}, now)
	if err != nil {
		return "", a.refusedServer(c, r, err)
	}
	return out.Server.ID, nil
}

// shown notes that Nova shows the server of the last request of an attempt.
func (a *account) shown(r cloud.CreateRequest) {
	now := a.now()
	if last, known := a.requests.get(attemptOf(r), now, forever); known {
		last.shown = true
		a.requests.put(attemptOf(r), last, now)
	}
}

// uncertain is the cause of a failed call that the cloud may have carried out, or
// may yet carry out.
type uncertain struct{ error }

// Unwrap returns the cause.
func (u uncertain) Unwrap() error { return u.error }

// mayHappen reports whether the cloud may carry out a request that failed with err.
// It does not when the answer is a refusal, or when there was no connection.
func mayHappen(err error) bool {
	if status, ok := errors.AsType[gophercloud.ErrUnexpectedResponseCode](err); ok {
		return status.Actual >= http.StatusInternalServerError || status.Actual == http.StatusRequestTimeout
	}
	dial, ok := errors.AsType[*net.OpError](err)
	return !ok || dial.Op != "dial"
}

// errorOf returns e as an error, nil if it is nil.
func errorOf(e *cloud.Error) error {
	if e == nil {
		return nil
	}
	return e
}
