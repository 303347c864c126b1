package play

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	model "github.com/capmcm/cluster-api-provider-mcm/test/simulation/apiserver"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/invariant"
	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

var (
	errTooLong = errors.New("the run does not come to rest")
	errReset   = errors.New("read tcp: connection reset by peer")
	errRefused = errors.New("dial tcp: connect: connection refused")
	errFull    = errors.New("etcdserver: mvcc: database space exceeded")
)

// How a request can go wrong.
type trouble uint8

const (
	fine           trouble = iota
	refused                // an error, nothing has happened
	lostRequest            // no answer; it may still arrive
	lostAnswer             // no answer, although it has happened
	delayedRequest         // no answer; it arrives soon
)

// wireTo carries requests to an API server.
func (w *World) wireTo(s *model.Server) mirror.Wire {
	return func(ctx context.Context, c mirror.Call, effect func(by string) error) error {
		return w.wire(ctx, s, c, effect)
	}
}

// wire carries a request of a manager.
func (w *World) wire(ctx context.Context, s *model.Server, c mirror.Call, effect func(by string) error) error {
	t := taskOf(ctx)
	if t == nil {
		return effect("manager")
	}
	lives := s.Lives()
	do := func(late bool) error {
		return w.act(t, late, func() error {
			if lives != s.Lives() {
				return errRefused // the server that it was sent to is no more
			}
			err := effect(t.String())
			if !c.Read {
				w.trace("%s: %s%s %s", t, c, lateness(late), outcome(err))
			}
			return err
		})
	}
	if !c.Read {
		w.writes++
	}
	how, failure := w.weather.request(w, s, c)
	return w.exchange(t, !c.Read, how, failure, do)
}

// exchange is a request and its answer. The process can crash before and after.
func (w *World) exchange(t *task, writes bool, how trouble, failure error, do func(late bool) error) error {
	late := func() {
		if writes && w.chance(0.5) {
			w.after(w.between(0, 55*time.Second), func() { _ = do(true) })
		}
	}
	if writes {
		if err := t.process.mayWrite(); err != nil {
			w.trace("%s: %v", t, err)
			return err
		}
	}
	w.point(t, writes, late)
	switch how {
	case refused:
		w.trace("%s: refused: %v", t, failure)
		return failure
	case lostRequest:
		w.trace("%s: request lost", t)
		t.process.fence.Unanswered()
		late()
		return failure
	case delayedRequest:
		w.trace("%s: request delayed", t)
		t.process.fence.Unanswered()
		w.after(w.between(time.Second, 55*time.Second), func() { _ = do(true) })
		return failure
	case lostAnswer:
		_ = do(false)
		w.trace("%s: answer lost", t)
		t.process.fence.Unanswered()
		w.point(t, writes, func() {})
		return failure
	case fine:
	}
	err := do(false)
	w.point(t, writes, func() {})
	return err
}

// point is where others can act, and where a process can crash. lost is called
// if it does.
func (w *World) point(t *task, writes bool, lost func()) {
	if w.broken != nil {
		return
	}
	p := t.process
	if writes {
		p.effects++
		if p.crashIn > 0 {
			if p.crashIn--; p.crashIn == 0 {
				lost()
				w.crash(p, "it crashes in "+t.String())
				if !p.isCommand() {
					w.again(p, w.between(leaseDuration-retryPeriod, 40*time.Second))
				}
				panic(killed{})
			}
		}
	}
	switch {
	case w.chance(w.weather.stalls(w.now)) && !w.healing:
		t.pause(w.between(0, 20*time.Second))
	case w.chance(0.15):
		t.pause(w.between(0, 30*time.Millisecond))
	}
}

// stalls is how likely a request or an answer takes seconds.
func (s *weather) stalls(now time.Time) float64 {
	if s.slow.After(now) {
		return 0.2
	}
	return 0.02
}

// act has a task do something, under its name. Commands are none of the managers,
// who are judged.
func (w *World) act(t *task, late bool, do func() error) error {
	was := w.writer
	if t.process.isCommand() {
		w.writer = nil
		err := do()
		w.writer = was
		return err
	}
	w.writer = &invariant.Writer{
		Process: t.process.name, Controller: t.controller.Name, Key: t.request.NamespacedName,
		Began: t.began, Late: late, Home: t.process.home.server,
	}
	err := do()
	w.writer = was
	return err
}

func lateness(late bool) string {
	if late {
		return " (late)"
	}
	return ""
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return "failed: " + err.Error()
}

// cloudWire carries requests of managers to the cloud.
type cloudWire struct {
	world *World
	inner http.RoundTripper
}

// RoundTrip sends a request and returns its answer.
func (c cloudWire) RoundTrip(r *http.Request) (*http.Response, error) {
	t, w := taskOf(r.Context()), c.world
	if t == nil {
		return c.inner.RoundTrip(r)
	}
	var answer *http.Response
	sent := r.Clone(context.WithoutCancel(r.Context()))
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, err
		}
		sent.Body = body
	}
	writes := r.Method != http.MethodGet
	how, failure := w.weather.cloud(w, r)
	err := w.exchange(t, writes, how, failure, func(late bool) error {
		return w.act(t, late, func() (err error) {
			answer, err = c.inner.RoundTrip(sent) //nolint:bodyclose // the caller does
			w.look()
			if writes {
				w.trace("%s: cloud %s %s%s %s", t, r.Method, r.URL.Path, lateness(late), status(answer, err))
			}
			return err
		})
	})
	if err != nil {
		return nil, err
	}
	return answer, nil
}

// cloud is what becomes of a request to the cloud, besides what the cloud itself
// does wrong.
func (s *weather) cloud(w *World, r *http.Request) (trouble, error) {
	if s.astray.After(w.now) && createsVM(r) {
		s.astray = time.Time{}
		w.noRoomFor(w.between(0, 15*time.Second))
		return delayedRequest, errReset
	}
	if s.dark.After(w.now) {
		return refused, errRefused
	}
	if s.rain.After(w.now) && w.chance(s.rainOdds) {
		return [...]trouble{refused, lostRequest, lostAnswer}[w.rng.IntN(3)], errReset
	}
	return fine, nil
}

// createsVM reports whether a request is for a new VM.
func createsVM(r *http.Request) bool {
	return r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/vms")
}

// noRoomFor leaves no zone any capacity for a while. What asks once more for a VM meanwhile
// is refused, and may fall back to another class.
func (w *World) noRoomFor(d time.Duration) {
	for _, zone := range zones() {
		w.Cloud.SetCapacity(zone, "small", 0)
		w.after(d, func() {
			if !w.healing {
				w.Cloud.SetCapacity(zone, "small", -1)
			}
		})
	}
}

func status(r *http.Response, err error) string {
	if err != nil {
		return "failed: " + err.Error()
	}
	return r.Status
}

// fault returns the error of an API server that is not well.
func fault(k *model.Kind, name string, which int) (trouble, error) {
	switch which % 7 {
	case 0:
		return refused, apierrors.NewConflict(k.Resource, name, errors.New("the object has been modified"))
	case 1:
		return refused, apierrors.NewTooManyRequests("too many requests", 1)
	case 2:
		return refused, apierrors.NewInternalError(errors.New("etcdserver: leader changed"))
	case 3:
		return lostRequest, apierrors.NewTimeoutError("request did not complete within the allotted timeout", 1)
	case 4:
		return lostAnswer, fmt.Errorf("%s: %w", k.Resource, errReset)
	case 5:
		return lostRequest, fmt.Errorf("%s: %w", k.Resource, errReset)
	}
	return refused, apierrors.NewServiceUnavailable("apiserver is shutting down")
}
