package outage_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/capmcm/cluster-api-provider-mcm/test/simulation/mirror"
)

// queue is a controller and what it has to do, one after the other.
type queue struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request] // nil: what is not modelled panics

	env        *env
	controller *mirror.Controller
	ready      []reconcile.Request
	waits      map[reconcile.Request]bool
	later      map[reconcile.Request]time.Time
}

func newQueue(w *env, c *mirror.Controller) *queue {
	return &queue{env: w, controller: c, waits: map[reconcile.Request]bool{}, later: map[reconcile.Request]time.Time{}}
}

func (q *queue) Add(r reconcile.Request) {
	if !q.waits[r] {
		q.waits[r] = true
		q.ready = append(q.ready, r)
	}
}

func (q *queue) AddAfter(r reconcile.Request, d time.Duration) {
	if d <= 0 {
		q.Add(r)
		return
	}
	due := q.env.now.Add(d)
	if at, ok := q.later[r]; !ok || due.Before(at) {
		q.later[r] = due
	}
}

func (q *queue) AddRateLimited(r reconcile.Request) { q.AddAfter(r, q.controller.Limiter.When(r)) }

func (q *queue) Forget(r reconcile.Request) { q.controller.Limiter.Forget(r) }

// ripen makes ready what is due, and returns when the next is; zero if none waits.
func (q *queue) ripen() time.Time {
	var next time.Time
	var due []reconcile.Request
	for r, at := range q.later {
		switch {
		case !at.After(q.env.now):
			due = append(due, r)
		case next.IsZero() || at.Before(next):
			next = at
		}
	}
	slices.SortFunc(due, func(a, b reconcile.Request) int { return cmp.Compare(a.String(), b.String()) })
	for _, r := range due {
		delete(q.later, r)
		q.Add(r)
	}
	return next
}

// work reconciles what is ready, and reports whether anything was.
func (q *queue) work() bool {
	q.ripen()
	ctx := ctrl.LoggerInto(q.env.Context(), logr.Discard())
	ready := q.ready
	q.ready = nil
	for _, r := range ready {
		delete(q.waits, r)
		result, err := q.controller.Do.Reconcile(ctx, r)
		switch {
		case err != nil:
			q.AddRateLimited(r)
		case result.RequeueAfter > 0:
			q.Forget(r)
			q.AddAfter(r, result.RequeueAfter)
		default:
			q.Forget(r)
		}
	}
	return len(ready) > 0
}
