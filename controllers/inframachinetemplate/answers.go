package inframachinetemplate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// A question asks a cloud for the capacity of a class.
type question func(context.Context, class.Resolved) (cloud.Capacity, error)

// answers are what clouds have said last about templates with several classes, which are looked
// at often although nothing has changed. The zero value is ready to use.
type answers struct {
	mu    sync.Mutex
	known map[client.ObjectKey]answer
}

// answer is to the question about one class, as it was then.
type answer struct {
	class [sha256.Size]byte
	until time.Time // of an error: it is not asked again before; zero: the answer holds
	found cloud.Capacity
	err   error
}

// of returns ask for a template: it asks only if the class, its credentials, or the time for
// another attempt have come since the last answer.
func (a *answers) of(template client.ObjectKey, now time.Time, ask question) question {
	return func(ctx context.Context, r class.Resolved) (cloud.Capacity, error) {
		is := versionOf(r)
		a.mu.Lock()
		last, known := a.known[template]
		a.mu.Unlock()
		if known && last.class == is && (last.until.IsZero() || now.Before(last.until)) {
			return last.found, last.err
		}
		next := answer{class: is}
		if next.found, next.err = ask(ctx, r); next.err != nil {
			next.until = now.Add(max(outcome.After(next.err, 0), slowestRetry))
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.known == nil {
			a.known = map[client.ObjectKey]answer{}
		}
		a.known[template] = next
		return next.found, next.err
	}
}

// forget drops the answer for a template that is gone.
func (a *answers) forget(template client.ObjectKey) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.known, template)
}

// versionOf tells apart all that an answer depends on.
func versionOf(r class.Resolved) [sha256.Size]byte {
	h := sha256.New()
	if r.Object != nil {
		_, _ = fmt.Fprintf(h, "%s %d %s\n", r.Object.UID, r.Object.Generation, r.Object.ProviderSpec.Raw)
	}
	for _, key := range slices.Sorted(maps.Keys(r.Credentials)) {
		_, _ = fmt.Fprintf(h, "%q %q\n", key, r.Credentials[key])
	}
	return [sha256.Size]byte(h.Sum(nil))
}
