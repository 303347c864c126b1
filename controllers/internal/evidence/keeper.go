package evidence

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/internal/console"
	"github.com/capmcm/cluster-api-provider-mcm/internal/redact"
)

const (
	// interval and console.Kept bound the reads of a pool: more would only replace each other.
	interval = time.Minute
	// memory is how long a machine is remembered: longer than its failure takes to be written.
	memory = time.Hour
)

// Deps are what a Keeper needs.
type Deps struct {
	Client client.Client // of the cluster with the pools
	Live   client.Reader // the same, past its cache
	Clock  clock.PassiveClock
}

// Keeper reads consoles of machines that did not join, and keeps them. A nil Keeper reads none.
// It is safe for concurrent use.
type Keeper struct {
	Deps

	mu      sync.Mutex
	known   map[string]finding        // by owner id
	reads   map[types.UID][]time.Time // of a pool, in the last interval
	refused map[string]bool           // namespaces in which Secrets may not be written, as was logged
}

// finding is what is remembered of a machine.
type finding struct {
	at    time.Time
	found console.Failure
	ok    bool
}

// New returns a Keeper that has read nothing yet.
func New(d Deps) *Keeper {
	return &Keeper{
		Deps: d, known: map[string]finding{}, reads: map[types.UID][]time.Time{}, refused: map[string]bool{},
	}
}

// A Case is a machine that did not join.
type Case struct {
	Machine, OwnerID, ProviderID, Class string
	Namespace                           string
	// Pool returns what the machine is a part of, the zero value if nothing.
	Pool func(ctx context.Context) (Pool, error)
	// BootData are what is known of the VM's boot data; what they name is redacted.
	BootData func(ctx context.Context) [][]byte
	// Console reads the console, see cloud.Console.
	Console func(ctx context.Context) (string, error)
}

// Keep returns what the console of a machine says, which it reads unless that is known, and keeps
// it. ok is false if the console could not be read, or is empty.
func (k *Keeper) Keep(ctx context.Context, c Case) (found console.Failure, ok bool) {
	if k == nil || c.OwnerID == "" || c.ProviderID == "" {
		return console.Failure{}, false
	}
	if was, done := k.recall(c.OwnerID); done {
		return was.found, was.ok
	}
	pool, err := c.Pool(ctx)
	if err != nil {
		log.FromContext(ctx).Info("Console is not kept: the machine's pool cannot be read", "cause", err.Error())
	}
	found, ok = k.find(ctx, c, pool)
	k.remember(c.OwnerID, finding{at: k.Clock.Now(), found: found, ok: ok})
	return found, ok
}

// find returns what is stored of a machine, or else reads and stores it.
func (k *Keeper) find(ctx context.Context, c Case, pool Pool) (console.Failure, bool) {
	stored, err := k.load(ctx, c.Namespace, pool)
	if err != nil {
		log.FromContext(ctx).Info("Evidence of machines that did not join cannot be read", "cause", err.Error())
	} else if was, ok := console.Find(stored.failures, c.OwnerID); ok {
		return was, true
	}
	if !k.admit(pool.UID) {
		return console.Failure{}, false
	}
	found, ok := k.read(ctx, c)
	if ok && err == nil && pool.Name != "" {
		k.store(ctx, c.Namespace, pool, stored, found)
	}
	return found, ok
}

// read reads a console. What it says is found before anything is redacted.
func (k *Keeper) read(ctx context.Context, c Case) (console.Failure, bool) {
	text, err := c.Console(ctx)
	if err != nil {
		if e, known := errors.AsType[*cloud.Error](err); !known || e.Reason != cloud.ReasonConsoleUnsupported {
			log.FromContext(ctx).Info("Console of a machine that did not join cannot be read", "machine", c.Machine,
				"providerID", c.ProviderID, "cause", err.Error())
		}
		return console.Failure{}, false
	}
	if text = cloud.ConsoleTail(text); text == "" {
		return console.Failure{}, false
	}
	bootData := c.BootData(ctx)
	v := console.Classify(text)
	return console.Failure{
		Machine: c.Machine, OwnerID: c.OwnerID, ProviderID: c.ProviderID, Class: c.Class,
		Read: k.Clock.Now().UTC().Truncate(time.Second), Cause: v.Cause, Times: v.Times,
		Line: redact.Console(v.Line, bootData...), Text: cloud.ConsoleTail(redact.Console(text, bootData...)),
	}, true
}

// recall returns what is remembered of a machine, and forgets what is old.
func (k *Keeper) recall(ownerID string) (finding, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Clock.Now()
	for id, f := range k.known {
		if id != ownerID && now.Sub(f.at) > memory {
			delete(k.known, id)
		}
	}
	f, ok := k.known[ownerID]
	return f, ok
}

// remember keeps what was found of a machine, without the text.
func (k *Keeper) remember(ownerID string, f finding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f.found.Text = ""
	k.known[ownerID] = f
}

// admit reports whether another console of a pool is read now. Machines without a pool share one.
func (k *Keeper) admit(pool types.UID) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.Clock.Now()
	for uid, reads := range k.reads {
		recent := slices.DeleteFunc(reads, func(at time.Time) bool { return now.Sub(at) >= interval })
		if k.reads[uid] = recent; len(recent) == 0 {
			delete(k.reads, uid)
		}
	}
	if len(k.reads[pool]) >= console.Kept {
		return false
	}
	k.reads[pool] = append(k.reads[pool], now)
	return true
}

// failed logs that evidence was not stored; that it may not be, once for a namespace.
func (k *Keeper) failed(ctx context.Context, namespace string, err error) {
	l := log.FromContext(ctx)
	if !apierrors.IsForbidden(err) {
		l.Info("Console of a machine that did not join was not kept", "cause", err.Error())
		return
	}
	k.mu.Lock()
	said := k.refused[namespace]
	k.refused[namespace] = true
	k.mu.Unlock()
	if !said {
		l.Info("Consoles of machines that did not join are not kept: the manager may not write their Secrets; bind "+
			"ClusterRole capmcm-console-evidence in the namespace, or set --console-evidence=false (said once)",
			"namespace", namespace, "cause", err.Error())
	}
}
