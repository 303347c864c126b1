package inframachineclass

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/capi"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/class"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Secrets keeps the finalizer on a Secret for as long as a class in use names it.
type Secrets struct{ Deps }

// NewSecrets returns a Secrets.
func NewSecrets(d Deps) *Secrets { return &Secrets{d} }

// Reconcile adds or removes the finalizer and the move label of a Secret. It does
// not touch a Secret that no class in use names or has named.
func (s *Secrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object, err := watch.SecretMetadata(ctx, s.Client, req.NamespacedName)
	if err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if capi.Moving(object) {
		return reconcile.Result{}, nil
	}
	user, moves, err := s.users(ctx, object)
	if err != nil {
		return outcome.Of(0, err)
	}
	changed := object.DeepCopy()
	if moves {
		machinev1.SetLabel(changed, capi.MoveLabel, label(changed))
	}
	setFinalizer(changed, user != "")
	if user != "" && !object.DeletionTimestamp.IsZero() {
		s.Events.Eventf(object, corev1.EventTypeWarning, eventDeletionWaits,
			"Deletion waits for MachineClass %s, which names this Secret and is in use; delete its MCMMachines, or wait", user)
	}
	return outcome.Of(0, write(ctx, s.Client, object, changed))
}

// users returns the first class by name that is in use and may use the Secret;
// empty if there is none. moves reports whether the Secret has to be moved together
// with a class of its namespace.
func (s *Secrets) users(ctx context.Context, object *corev1.Secret) (user string, moves bool, err error) {
	var list machinev1.MachineClassList
	key := client.ObjectKeyFromObject(object).String()
	if err := s.Client.List(ctx, &list, client.MatchingFields{index.ClassBySecret: key}); err != nil {
		return "", false, fmt.Errorf("look up MachineClasses of Secret %s: %w", key, err)
	}
	for i := range list.Items {
		one := &list.Items[i]
		same := one.Namespace == object.Namespace
		if !same && !class.Allows(object, one.Namespace) {
			continue // the class may not use it
		}
		if inUse(one) && (user == "" || one.Name < user) {
			user = one.Name
		}
		if _, marked := one.Labels[capi.MoveLabel]; marked && same {
			moves = true
		}
	}
	return user, moves, nil
}

// inUse reports whether MCMMachines use the class.
func inUse(class *machinev1.MachineClass) bool {
	return slices.Contains(class.Finalizers, machinev1.InUseFinalizer)
}
