package steps

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
)

const (
	leaseDuration = 30 * time.Second // without a renewal, after which another command may take over
	renewInterval = 5 * time.Second
)

// A pool is migrated by one command at a time: the one that holds the Lease of the pool's
// name. The command creates the Lease when it begins, renews it while it works, and
// deletes it when it ends. The Lease of a command that was killed expires.

// awaitLease returns the Lease of a pool as it was read when no command held it any more, nil
// if there is none. It writes nothing, and fails if another command renews the Lease.
func (e *Engine) awaitLease(ctx context.Context, p migration.Pool, o migration.Options) (*coordinationv1.Lease, error) {
	var first *coordinationv1.Lease
	begun := e.Clock.Now()
	for {
		l, err := e.readLease(ctx, p)
		if err != nil || o.TakeOver || !isHeld(l) {
			return l, err
		}
		renewed := ptr.Deref(l.Spec.RenewTime, metav1.MicroTime{})
		seen := max(e.Clock.Now().Sub(renewed.Time).Round(time.Second), 0)
		duration := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
		switch {
		case isRenewed(first, l):
			return nil, fmt.Errorf("%s is being moved by another command (%s, seen %s ago): wait for it, stop it, or take "+
				"over with --take-over once it is gone for certain", p, *l.Spec.HolderIdentity, seen)
		case seen >= duration, e.Clock.Now().Sub(begun) >= duration: // the holder's clock may be ahead
			return l, nil
		case first == nil:
			waiting := fmt.Sprintf("Lease %s is held by %s, which renewed it %s ago; it expires after %s", l.Name,
				*l.Spec.HolderIdentity, seen, duration)
			if err := e.progressOf(ctx, p, waiting); err != nil {
				return nil, err
			}
		}
		first = l
		if err := e.Wait(ctx, lookAgain); err != nil {
			return nil, err
		}
	}
}

// isRenewed reports whether a Lease has changed since it was first read, if it was.
func isRenewed(first, now *coordinationv1.Lease) bool {
	return first != nil && first.ResourceVersion != now.ResourceVersion
}

// isHeld reports whether a command holds a Lease, which may be nil.
func isHeld(l *coordinationv1.Lease) bool {
	return l != nil && ptr.Deref(l.Spec.HolderIdentity, "") != ""
}

// progressOf tells what a pool waits for that is moved by another command.
func (e *Engine) progressOf(ctx context.Context, p migration.Pool, waiting string) error {
	if e.Progress == nil {
		return nil
	}
	s, err := load(ctx, e.Control, p)
	if err != nil {
		return err
	}
	e.Progress(Progress{Pool: p, To: s.To, Phase: s.Phase, Waiting: waiting})
	return nil
}

// readLease reads the Lease of a pool; nil if there is none.
func (e *Engine) readLease(ctx context.Context, p migration.Pool) (*coordinationv1.Lease, error) {
	l := &coordinationv1.Lease{}
	err := e.Control.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: migration.RecordName(p)}, l)
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // a pool that nobody works on is no failure
	}
	if err != nil {
		return nil, fmt.Errorf("read the Lease of %s: %w", p, err)
	}
	return l, nil
}

// acquire takes the Lease for m, unless another command has since it was read.
func (e *Engine) acquire(ctx context.Context, m *move) error {
	now := metav1.NewMicroTime(e.Clock.Now())
	l := m.lease.DeepCopy()
	if l == nil {
		l = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
			Namespace: m.Pool.Namespace, Name: migration.RecordName(m.Pool),
			Labels: map[string]string{machinev1.MigrationLabel: string(m.Pool.Kind)},
		}}
	}
	l.Spec.HolderIdentity, l.Spec.AcquireTime, l.Spec.RenewTime = &m.Holder, &now, &now
	l.Spec.LeaseDurationSeconds = new(int32(leaseDuration / time.Second))
	l.Spec.LeaseTransitions = new(ptr.Deref(l.Spec.LeaseTransitions, -1) + 1)
	var err error
	if m.lease == nil {
		err = e.Control.Create(ctx, l)
	} else {
		err = e.patchLease(ctx, m.lease, l)
	}
	m.lease = nil
	if err != nil {
		return leaseError(m.Pool, err)
	}
	m.lease = l
	return nil
}

// renew renews the Lease if it is time, and fails if another command has taken it over.
func (e *Engine) renew(ctx context.Context, m *move) error {
	now := e.Clock.Now()
	if m.lease == nil {
		return takenOver(m.Pool)
	}
	if now.Sub(m.lease.Spec.RenewTime.Time) < renewInterval {
		return nil
	}
	l := m.lease.DeepCopy()
	l.Spec.RenewTime = new(metav1.NewMicroTime(now))
	if err := e.patchLease(ctx, m.lease, l); err != nil {
		m.lease = nil
		return leaseError(m.Pool, err)
	}
	m.lease = l
	return nil
}

func (e *Engine) patchLease(ctx context.Context, have, want *coordinationv1.Lease) error {
	return e.Control.Patch(ctx, want, client.MergeFromWithOptions(have, client.MergeFromWithOptimisticLock{}))
}

// release deletes the Lease, so that the next command need not wait. It may fail: then
// the Lease expires.
func (e *Engine) release(ctx context.Context, m *move) {
	if m.lease == nil {
		return
	}
	_ = e.Control.Delete(ctx, m.lease, asRead(m.lease))
	m.lease = nil
}

func leaseError(p migration.Pool, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return takenOver(p)
	}
	return fmt.Errorf("write the Lease of %s: %w", p, err)
}

func takenOver(p migration.Pool) error {
	return fmt.Errorf("another command has taken over the move of %s: see Lease %s", p, migration.RecordName(p))
}

// leaseClient is a client that renews the Lease of the move before each write, if it is
// time, and refuses to write once another command has taken the Lease over: a step through
// a thousand machines may take longer than the Lease lasts.
type leaseClient struct {
	client.Client
	renew func(context.Context) error
}

// at is the engine while it works on m.
func (e *Engine) at(m *move) *Engine {
	renew := func(ctx context.Context) error { return e.renew(ctx, m) }
	out := *e
	out.Control, out.Target = leaseClient{e.Control, renew}, leaseClient{e.Target, renew}
	return &out
}

// before is called before each write. The record and the Lease are written for themselves.
func (b leaseClient) before(ctx context.Context, o client.Object) error {
	switch o.(type) {
	case *corev1.ConfigMap, *coordinationv1.Lease:
		return nil
	}
	return b.renew(ctx)
}

// Create creates o.
func (b leaseClient) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Create(ctx, o, opts...)
}

// Patch changes o.
func (b leaseClient) Patch(ctx context.Context, o client.Object, p client.Patch, opts ...client.PatchOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Patch(ctx, o, p, opts...)
}

// Delete deletes o.
func (b leaseClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if err := b.before(ctx, o); err != nil {
		return err
	}
	return b.Client.Delete(ctx, o, opts...)
}

// Status writes statuses.
func (b leaseClient) Status() client.SubResourceWriter {
	return leaseStatusWriter{b.Client.Status(), b}
}

type leaseStatusWriter struct {
	client.SubResourceWriter
	parent leaseClient
}

// Patch changes the status of o.
func (b leaseStatusWriter) Patch(ctx context.Context, o client.Object, p client.Patch,
	opts ...client.SubResourcePatchOption,
) error {
	if err := b.parent.before(ctx, o); err != nil {
		return err
	}
	return b.SubResourceWriter.Patch(ctx, o, p, opts...)
}

// stored is a Record and the ConfigMap that it was read from.
type stored struct {
	migration.Record
	object *corev1.ConfigMap     // nil: it has not been written yet
	lease  *coordinationv1.Lease // as it was last read or written; nil: there is none, or another command has it
	backup []byte                // to be written with it; nil: the backup stays as it is
}

// load reads the Record of a pool; one that was never moved has no object.
func load(ctx context.Context, c client.Reader, p migration.Pool) (*stored, error) {
	object := &corev1.ConfigMap{}
	err := c.Get(ctx, client.ObjectKey{Namespace: p.Namespace, Name: migration.RecordName(p)}, object)
	if apierrors.IsNotFound(err) {
		return &stored{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the record of %s: %w", p, err)
	}
	r, err := migration.DecodeRecord(object)
	return &stored{Record: r, object: object}, err
}

// save writes s, and fails with a conflict if somebody else did since it was read.
func (s *stored) save(ctx context.Context, c client.Client) error {
	text, err := json.MarshalIndent(s.Record, "", "  ")
	if err != nil {
		return err
	}
	if s.object == nil {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: s.Pool.Namespace, Name: migration.RecordName(s.Pool),
				Labels: map[string]string{machinev1.MigrationLabel: string(s.Pool.Kind)},
			},
			Data: map[string]string{migration.RecordKey: string(text)},
		}
		if err := c.Create(ctx, object); err != nil {
			return fmt.Errorf("write the record of %s: %w", s.Pool, err)
		}
		s.object = object
		return nil
	}
	changed := s.object.DeepCopy()
	changed.Data = map[string]string{migration.RecordKey: string(text)}
	if s.backup != nil {
		changed.BinaryData = map[string][]byte{migration.BackupKey: s.backup}
	}
	if err := c.Patch(ctx, changed, client.MergeFromWithOptions(s.object,
		client.MergeFromWithOptimisticLock{})); err != nil {
		return fmt.Errorf("write the record of %s: %w", s.Pool, err)
	}
	s.object, s.backup = changed, nil
	return nil
}
