package machineset

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// createMachines makes the machines that are missing on the API server, at most burst of
// them: it reserves their ordinals in the set, creates them in order, and closes
// the reservation. What it does not finish, the next pass does.
func (c *Controller) createMachines(ctx context.Context, s *scope) error {
	live, err := c.listLiveMachines(ctx, s)
	if err != nil {
		return err
	}
	missing := int(s.set.Spec.Replicas) - len(active(live))
	if missing <= 0 {
		return c.closeReservation(ctx, s)
	}
	ordinals, err := c.reserveOrdinals(ctx, s, live, min(missing, burstReplicas))
	if err != nil {
		return c.emitFailureEvent(s, machinev1.EventFailedCreate, "Error creating", err)
	}
	var made []string
	for _, ordinal := range ordinals {
		var name string
		if name, err = c.createMachine(ctx, s, ordinal); err != nil {
			break
		}
		if name != "" {
			made = append(made, name)
		}
	}
	sortByName(s.machines)
	c.emitMachinesEvent(s, machinev1.EventSuccessfulCreate, "Created Machine", "Created Machines", made)
	if err != nil {
		return c.emitFailureEvent(s, machinev1.EventFailedCreate, "Error creating", err)
	}
	return c.closeReservation(ctx, s)
}

// createMachine makes sure that the Machine with that ordinal has been created
// once. It returns its name if it is new. A Machine that is there already is the
// outcome of an earlier attempt; a stranger of that name uses the ordinal up.
func (c *Controller) createMachine(ctx context.Context, s *scope, ordinal int64) (string, error) {
	m := newMachine(s.set, ordinal)
	err := c.Client.Create(ctx, m)
	switch {
	case err == nil:
		c.rememberCreated(s, m)
		s.memory.batch.done[ordinal] = true
		return m.Name, nil
	case !apierrors.IsAlreadyExists(err):
		s.memory.batch.unconfirmedCreates = s.memory.batch.unconfirmedCreates || !createRejected(err)
		return "", fmt.Errorf("create Machine %s: %w", m.Name, err)
	}
	there := &machinev1.Machine{}
	err = c.Live.Get(ctx, client.ObjectKeyFromObject(m), there)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read Machine %s: %w", m.Name, err)
	}
	s.memory.batch.done[ordinal] = true
	if err == nil && metav1.IsControlledBy(there, s.set) {
		c.rememberCreated(s, there)
	}
	return "", nil
}

// createRejected reports whether the API server is sure to have done nothing.
func createRejected(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	if !ok {
		return false
	}
	code := status.ErrStatus.Code
	return code >= http.StatusBadRequest && code < http.StatusInternalServerError && code != http.StatusRequestTimeout
}

// rememberCreated adds a Machine that the cache need not show yet.
func (c *Controller) rememberCreated(s *scope, m *machinev1.Machine) {
	s.memory.recordCreate(m, s.now)
	if !slices.ContainsFunc(s.machines, func(known *machinev1.Machine) bool { return known.Name == m.Name }) {
		s.machines = append(s.machines, m)
	}
}

// newMachine is the Machine with that ordinal. Two writers make the same one.
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
	// A template cannot name the VM of all of its machines, or hold them.
	m.Spec.ProviderID = ""
	machinev1.DropHold(m)
	controllerutil.AddFinalizer(m, machinev1.Finalizer)
	if m.Annotations[machinev1.PriorityAnnotation] == "" {
		setAnnotation(m, machinev1.PriorityAnnotation, machinev1.DefaultPriority)
	}
	setAnnotation(m, machinev1.OwnerIDAnnotation, names.OwnerID(ordinal))
	timeout := set.Annotations[machinev1.EffectiveCreationTimeoutAnnotation]
	if _, err := time.ParseDuration(timeout); err == nil {
		setAnnotation(m, machinev1.EffectiveCreationTimeoutAnnotation, timeout)
	}
	setProviderIDForm(m, providerIDForm(m, set))
	return m
}

// emitFailureEvent emits an Event for an error that is not just a stale cache.
func (c *Controller) emitFailureEvent(s *scope, reason, what string, err error) error {
	if !apierrors.IsConflict(err) {
		c.Events.Event(s.set, corev1.EventTypeWarning, reason, truncate(what+": "+err.Error()))
	}
	return err
}
