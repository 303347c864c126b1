package dashboard

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/capmcm/cluster-api-provider-mcm/ops/read"
)

const (
	// pollEvery is how often a page asks while it is visible.
	pollEvery = 5 * time.Second
	// leastAge is how old a state becomes before a question makes the clusters be read again.
	leastAge = 4 * time.Second
	// shareOfTime bounds the load of a large fleet: it is read at most one part of the time in so many.
	shareOfTime = 10
	// readTimeout is how long a reading may take.
	readTimeout = time.Minute
)

// source reads the clusters for all viewers: when one of them asks, and the state is old enough. Without a viewer
// nothing is read.
type source struct {
	reader   read.Source
	selector labels.Selector
	now      func() time.Time

	turn chan struct{} // has one element while somebody uses what follows
	next time.Time     // not before
	last *snapshot     // of the last reading that succeeded; nil: none has
	err  error         // of the newest reading
}

func newSource(reader read.Source, selector labels.Selector, now func() time.Time) *source {
	return &source{reader: reader, selector: selector, now: now, turn: make(chan struct{}, 1)}
}

// current is the newest state, with the error of a newer reading that failed. Without any state it is nil.
func (s *source) current(ctx context.Context) (*snapshot, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if !s.now().Before(s.next) {
		s.read(ctx)
	}
	return s.last, s.err
}

// read reads the clusters. It goes on for the others when the viewer who asked first has left.
func (s *source) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
	defer cancel()
	began := s.now()
	reader := s.reader
	reader.Now = began
	facts, err := reader.All(ctx)
	if s.err = err; err == nil {
		s.last = newSnapshot(facts, s.selector, s.reader.Namespace)
	}
	ended := s.now()
	s.next = ended.Add(max(leastAge, (shareOfTime-1)*ended.Sub(began)))
}
