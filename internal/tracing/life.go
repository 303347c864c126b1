package tracing

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/capmcm/cluster-api-provider-mcm/ops/explain"
)

// lives are those of the machines that an Observer sees, so that each phase is exported once.
type lives struct {
	tracer *Tracer
	clock  clock.PassiveClock
	since  time.Time // phases that ended before it are those of an earlier leader

	mu  sync.Mutex
	all map[types.UID]*life
}

// life is what of a machine was seen, and is not on record.
type life struct {
	exported  map[string]bool
	detaching bool
	detached  time.Time
}

func newLives(t *Tracer, c clock.PassiveClock) *lives {
	return &lives{tracer: t, clock: c, since: c.Now().Add(-lookBack), all: map[types.UID]*life{}}
}

// observe exports what is over of the life of a machine that is there.
func (a *lives) observe(ctx context.Context, uid types.UID, seen *explain.Life) {
	if seen.Object.OwnerID == "" {
		return
	}
	a.tracer.remember(keyOf(seen.Object), seen.Object.TraceID())
	a.mu.Lock()
	defer a.mu.Unlock()
	a.export(ctx, a.of(uid), seen)
}

// end exports what is over of the life of a machine that has just gone, and forgets it.
func (a *lives) end(ctx context.Context, uid types.UID, seen *explain.Life) {
	if seen.Object.OwnerID == "" {
		return
	}
	a.tracer.remember(keyOf(seen.Object), "")
	a.mu.Lock()
	defer a.mu.Unlock()
	seen.Gone = a.clock.Now()
	a.export(ctx, a.of(uid), seen)
	a.tracer.life(ctx, seen.Object, seen.Gone)
	delete(a.all, uid)
}

// of is what was seen of a machine.
func (a *lives) of(uid types.UID) *life {
	if a.all[uid] == nil {
		a.all[uid] = &life{exported: map[string]bool{}}
	}
	return a.all[uid]
}

// export exports the phases that are over and have not been exported.
func (a *lives) export(ctx context.Context, l *life, seen *explain.Life) {
	detaching := seen.Object.Detaching() && seen.Gone.IsZero()
	if l.detaching && !detaching {
		l.detached = a.clock.Now()
	}
	l.detaching, seen.Detached = detaching, l.detached
	for _, p := range seen.Phases() {
		if !l.exported[p.Name] && !p.End.Before(a.since) {
			a.tracer.phase(ctx, seen.Object, p)
		}
		l.exported[p.Name] = true
	}
}

func keyOf(o *explain.Object) machineKey {
	return machineKey{o.Kind, types.NamespacedName{Namespace: o.Namespace, Name: o.Name}}
}
