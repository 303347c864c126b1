package steps

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/recovery"
)

// lookAgain is the time between two looks at what controllers have done.
const lookAgain = time.Second

// Deps are what an Engine needs; all are required.
type Deps struct {
	Control client.Client // cluster with the objects, read from its API server
	Target  client.Reader // cluster with the Nodes, read from its API server
	Clock   clock.PassiveClock
	// Wait waits for so long, or until the context ends, whose error it returns.
	Wait func(context.Context, time.Duration) error
	// Name returns a name that no other run has, e.g. a UUID; it has no dots.
	Name func() string
	// Progress is called with what is done, and what is waited for.
	Progress func(text string)
}

// Engine recovers machines.
type Engine struct{ Deps }

// New returns an Engine.
func New(d Deps) *Engine { return &Engine{d} }

// run is one call of Run.
type run struct {
	*Engine
	namespace string
	name      string
	options   recovery.Options
	listing   []string // MachineClasses that listed VMs at the beginning
	created   int      // machines
	told      string   // what was waited for last
	stays     []string // pools that cannot be released, and why
}

// Run recovers the VMs that options choose, and that no problem blocks. It blocks until that
// is done, for at most timeout; calling it again goes on. It is idempotent. It returns how
// many machines it has created.
func (e *Engine) Run(ctx context.Context, namespace string, o recovery.Options, timeout time.Duration) (int, error) {
	r := &run{Engine: e, namespace: namespace, name: e.Name(), options: o}
	end := e.Clock.Now().Add(timeout)
	for {
		waiting, done, err := r.pass(ctx)
		if apierrors.IsConflict(err) {
			waiting, done, err = "an object that was changed meanwhile", false, nil
		}
		if err != nil {
			return r.created, err
		}
		if done {
			return r.created, errors.Join(r.staysHeld(), r.refresh(ctx))
		}
		if !e.Clock.Now().Before(end) {
			return r.created, fmt.Errorf("not done in %s, waiting for: %s; the same command goes on", timeout,
				cmp.Or(waiting, "nothing, as every pass has something to write"))
		}
		if waiting == "" {
			continue
		}
		r.waits(waiting)
		if err := e.Wait(ctx, lookAgain); err != nil {
			return r.created, errors.Join(err, errors.New("interrupted: the same command goes on"))
		}
	}
}

func (r *run) waits(what string) {
	if what != r.told {
		r.Progress("waiting for: " + what)
	}
	r.told = what
}

// pass does what is next. It returns what it waits for; nothing if it has written
// something.
func (r *run) pass(ctx context.Context) (waiting string, done bool, err error) {
	s, err := recovery.Read(ctx, r.Control, r.Target, r.namespace)
	if err != nil {
		return "", false, err
	}
	r.rememberListing(s)
	p := recovery.Of(s, r.options)
	steps := []step{r.release(s)}
	if unfinished(&p) {
		steps = []step{r.hold, r.create, r.resize, r.release(s)}
	}
	for _, step := range steps {
		if waiting, wrote, err := step(ctx, &p); err != nil || wrote || waiting != "" {
			return waiting, false, err
		}
	}
	return "", true, nil
}

// step does one part of a plan. It reports whether it has written something, which later
// steps would not see, or what it waits for.
type step func(ctx context.Context, p *recovery.Plan) (waiting string, wrote bool, err error)

// rememberListing notes which classes list VMs at the beginning.
func (r *run) rememberListing(s *recovery.State) {
	if r.listing != nil {
		return
	}
	r.listing = []string{}
	for _, l := range s.Listings {
		r.listing = append(r.listing, l.Class)
	}
}

// unfinished reports whether there is something to do before objects are released.
func unfinished(p *recovery.Plan) bool {
	if p.Count(recovery.Recover) > 0 {
		return true
	}
	for i := range p.Pools {
		if o := &p.Pools[i]; o.Replicas != nil || o.DeploymentReplicas != nil || o.Ordinals != nil {
			return true
		}
	}
	return false
}

// refresh has the orphan collector look again: what it lists has machines now.
func (r *run) refresh(ctx context.Context) error {
	if r.created == 0 {
		return nil
	}
	for _, name := range r.listing {
		class := &machinev1.MachineClass{}
		err := r.Control.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: name}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read MachineClass %s: %w", name, err)
		}
		if err != nil {
			continue
		}
		before := class.DeepCopy()
		machinev1.SetAnnotation(class, machinev1.LookForOrphansAnnotation, r.Clock.Now().UTC().Format(time.RFC3339))
		if err := r.Control.Patch(ctx, class, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("write MachineClass %s: %w", name, err)
		}
	}
	return nil
}
