package machineset

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fallback"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/fresh"
	"github.com/capmcm/cluster-api-provider-mcm/internal/fence"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// createMachines creates the Machines that are missing on the API server, at most
// burstReplicas of them: it reserves their ordinals in the set, creates them in
// order, and closes the reservation. The next reconcile finishes what fails.
func (c *Controller) createMachines(ctx context.Context, s *scope) error {
	live, err := c.listLiveMachines(ctx, s)
	if err != nil {
		return err
	}
	missing := int(s.set.Spec.Replicas) - len(active(live))
	if missing <= 0 {
		return c.closeReservation(ctx, s)
	}
	if err := c.checkNames(ctx, s); err != nil {
		c.emitFailureEvent(s, machinev1.EventFailedCreate, "Error creating", err)
		return err
	}
	ordinals, err := c.reserveOrdinals(ctx, s, live, min(missing, burstReplicas))
	if err != nil {
		c.emitFailureEvent(s, machinev1.EventFailedCreate, "Error creating", err)
		return err
	}
	var created []string
	for _, ordinal := range ordinals {
		var name string
		if name, err = c.createMachine(ctx, s, ordinal); err != nil {
			break
		}
		if name != "" {
			created = append(created, name)
		}
	}
	sortByName(s.machines)
	c.emitMachinesEvent(s, machinev1.EventSuccessfulCreate, "Created Machine", "Created Machines", created)
	if err != nil {
		c.emitFailureEvent(s, machinev1.EventFailedCreate, "Error creating", err)
		return err
	}
	return c.closeReservation(ctx, s)
}

// checkNames fails if the cloud of the set's class takes no names like those of its Machines: none of
// them would ever get a VM. A class that cannot be read is reported by the Machines.
func (c *Controller) checkNames(ctx context.Context, s *scope) error {
	class := s.set.Spec.Template.Spec.Class.Name
	resolved, err := c.Resolve(ctx, c.Client, s.set.Namespace, class)
	if err != nil || resolved.Driver == nil {
		return nil //nolint:nilerr // the Machines report it
	}
	name, cloud := naming.NewNames(s.set).Name(0), resolved.Driver.Traits()
	if wrong := cloud.Names.Problem(name); wrong != "" {
		return fmt.Errorf("name %s %s, and %s takes no other names of VMs; create the MachineSet, or its "+
			"MachineDeployment, under another name", name, wrong, cloud.Name)
	}
	return nil
}

// createMachine ensures that the Machine with that ordinal has been created once.
// It returns the name if this call created it. An existing Machine of the set is
// the result of an earlier attempt; another object of that name uses up the ordinal.
func (c *Controller) createMachine(ctx context.Context, s *scope, ordinal int64) (string, error) {
	m := newMachine(s.set, ordinal)
	if err := c.chooseClass(ctx, s, m); err != nil {
		return "", err
	}
	err := c.Client.Create(ctx, m)
	switch {
	case err == nil:
		c.rememberCreated(s, m)
		s.memory.batch.done[ordinal] = true
		return m.Name, nil
	case !apierrors.IsAlreadyExists(err):
		if !fresh.Rejected(err) {
			s.memory.batch.unanswered = c.Clock.Now()
		}
		return "", fmt.Errorf("create Machine %s: %w", m.Name, err)
	}
	existing := &machinev1.Machine{}
	err = c.Live.Get(ctx, client.ObjectKeyFromObject(m), existing)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read Machine %s: %w", m.Name, err)
	}
	s.memory.batch.done[ordinal] = true
	if err == nil && metav1.IsControlledBy(existing, s.set) {
		c.rememberCreated(s, existing)
	}
	return "", nil
}

// chooseClass gives a new Machine the first class of its pool that is not exhausted, if the pool
// names several. Until a VM was asked for, another process may choose another one: whichever
// creates the Machine first decides.
func (c *Controller) chooseClass(ctx context.Context, s *scope, m *machinev1.Machine) error {
	names, err := fallback.ClassesOfSet(ctx, c.Client, s.set)
	if err != nil || len(names) < 2 {
		return err
	}
	pool, err := fallback.Candidates(ctx, c.Client, c.Resolve,
		fallback.Pool{Namespace: m.Namespace, Classes: names})
	if err != nil {
		return fmt.Errorf("read the classes of the pool: %w", err)
	}
	id := machinev1.OwnerID(m)
	if next, ok := c.Fallback.Next(pool, id, ""); ok && c.Fallback.Begin(next.Offer, id) {
		m.Spec.Class.Name = next.Name
	}
	return nil
}

// rememberCreated adds a Machine that the cache may not show yet.
func (c *Controller) rememberCreated(s *scope, m *machinev1.Machine) {
	s.memory.machines.Created(m, s.now)
	if !slices.ContainsFunc(s.machines, func(known *machinev1.Machine) bool { return known.Name == m.Name }) {
		s.machines = append(s.machines, m)
	}
}

// newMachine builds the Machine with that ordinal. Two processes build the same one.
func newMachine(set *machinev1.MachineSet, ordinal int64) *machinev1.Machine {
	names := namesOf(set)
	template := set.Spec.Template.DeepCopy()
	m := &machinev1.Machine{
		ObjectMeta: metav1.ObjectMeta{
			Name:            names.Name(ordinal),
			Namespace:       set.Namespace,
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{controllerRef(set)},
		},
		Spec: template.Spec,
	}
	// A template can neither name one VM for all its Machines nor hold them.
	m.Spec.ProviderID = ""
	machinev1.DropHold(m)
	controllerutil.AddFinalizer(m, machinev1.Finalizer)
	if m.Annotations[machinev1.PriorityAnnotation] == "" {
		machinev1.SetAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	}
	machinev1.SetAnnotation(m, machinev1.OwnerIDAnnotation, names.OwnerID(ordinal))
	timeout := set.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]
	if _, err := time.ParseDuration(timeout); err == nil {
		machinev1.SetAnnotation(m, machinev1.EffectiveCreationTimeoutAnnotation, timeout)
	}
	setProviderIDForm(m, providerIDForm(m, set))
	return m
}

func namesOf(set *machinev1.MachineSet) naming.Names { return naming.NewNames(set) }

// reserveOrdinals returns at most missing ordinals to create Machines with: those
// of an unfinished reservation, or new ones. They are recorded in the set before
// it returns.
func (c *Controller) reserveOrdinals(ctx context.Context, s *scope, live []*machinev1.Machine, missing int,
) ([]int64, error) {
	record := s.ordinalsRecord(live)
	left := c.unfinishedOrdinals(s, record, live)
	if len(left) > 0 {
		// Nothing is written here, so no conflict would reveal a stale set.
		if now, err := c.getLiveSet(ctx, s); err != nil {
			return nil, err
		} else if now.ResourceVersion != s.set.ResourceVersion {
			return nil, errCacheStale("the MachineSet has changed")
		}
		s.memory.batch = s.memory.batch.follow(record)
		return left[:min(len(left), missing)], nil
	}
	inFlight := c.createsInFlight(s, record) > 0
	next, err := reserve(record, missing, inFlight)
	if err != nil {
		return nil, err
	}
	// Remembered before the write, because its answer may get lost.
	b := batch{done: map[int64]bool{}}
	if inFlight {
		b = s.memory.batch.follow(record)
	}
	b.record = next
	s.memory.batch = b
	if err := c.writeOrdinals(ctx, s, next); err != nil {
		return nil, err
	}
	return c.unfinishedOrdinals(s, next, live), nil
}

// reserve reserves count further ordinals. An earlier reservation stays open if
// requests to create its Machines are in flight: they may still take effect.
func reserve(record naming.Ordinals, count int, inFlight bool) (naming.Ordinals, error) {
	if inFlight {
		return record.Reserve(count)
	}
	return record.Close().Reserve(count)
}

// ordinalsRecord returns the set's record of ordinals. A lost or damaged record is
// restored from the existing Machines.
func (s *scope) ordinalsRecord(live []*machinev1.Machine) naming.Ordinals {
	record, err := naming.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || record.Next == 0 {
		return naming.Recover(namesOf(s.set), live)
	}
	return record
}

// unfinishedOrdinals returns the reserved ordinals whose Machines are yet to be created.
// Once no request to create one can be in flight any more, a name without Machine
// is given up: its Machine may have existed.
func (c *Controller) unfinishedOrdinals(s *scope, record naming.Ordinals, live []*machinev1.Machine) []int64 {
	if !record.IsOpen() || (!s.allCreatesAnswered(record) && c.createsInFlight(s, record) == 0) {
		return nil
	}
	known := s.memory.batch.record == record
	exists := map[string]bool{}
	for _, m := range live {
		exists[m.Name] = true
	}
	names := namesOf(s.set)
	return record.Unfinished(func(ordinal int64) bool {
		return exists[names.Name(ordinal)] || (known && s.memory.batch.done[ordinal])
	})
}

// allCreatesAnswered reports whether this process made the reservation and received
// an answer to each of its create requests.
func (s *scope) allCreatesAnswered(record naming.Ordinals) bool {
	b := s.memory.batch
	return b.record == record && !b.inherited && b.unanswered.IsZero()
}

// createsInFlight returns for how long a request to create a Machine of an open
// reservation may still take effect: one of a former leader, or one of this process
// that got no answer; 0 if there is none.
func (c *Controller) createsInFlight(s *scope, record naming.Ordinals) time.Duration {
	b := s.memory.batch
	if !record.IsOpen() {
		return 0
	}
	var left time.Duration
	if !b.unanswered.IsZero() { // whatever the record says: a write of it may have got lost
		left = fence.Reach - s.now.Sub(b.unanswered)
	}
	if b.record != record || b.inherited {
		left = max(left, c.Fence.FormerLeader())
	}
	return max(left, 0)
}

// closeReservation records that the open ordinals are used up, once no request to
// create one of their Machines can be in flight. Until then a further Machine gets
// one of those names, and a deleted Machine keeps its name, so that a late request
// collides.
func (c *Controller) closeReservation(ctx context.Context, s *scope) error {
	record, err := naming.ParseOrdinals(s.set.Annotations[machinev1.OrdinalsAnnotation])
	if err != nil || !record.IsOpen() {
		return nil //nolint:nilerr // the next reservation restores a damaged record
	}
	if left := c.createsInFlight(s, record); left > 0 {
		s.requeueAfter(left)
		return nil
	}
	return c.writeOrdinals(ctx, s, record.Close())
}

func (c *Controller) writeOrdinals(ctx context.Context, s *scope, record naming.Ordinals) error {
	return c.patchSet(ctx, s, func(set *machinev1.MachineSet) {
		if set.Annotations == nil {
			set.Annotations = map[string]string{}
		}
		set.Annotations[machinev1.OrdinalsAnnotation] = record.String()
	})
}
