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
)

// Secrets holds a Secret for as long as a class that is held names it.
type Secrets struct{ Deps }

// NewSecrets returns a Secrets.
func NewSecrets(d Deps) *Secrets { return &Secrets{d} }

// Reconcile brings finalizer and label of a Secret into line with its use. A
// Secret that no class of this door names, and none has named, is not touched.
func (s *Secrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &corev1.Secret{}
	if err := s.Client.Get(ctx, req.NamespacedName, object); err != nil {
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
		capi.SetLabel(changed, capi.MoveLabel, label(changed))
	}
	hold(changed, user != "")
	if user != "" && !object.DeletionTimestamp.IsZero() {
		s.Events.Eventf(object, corev1.EventTypeWarning, eventDeletionWaits,
			"Deletion waits for MachineClass %s, which names this Secret and is in use", user)
	}
	return outcome.Of(0, patch(ctx, s.Client, object, changed))
}

// users returns the first class by name that is held and may use the Secret,
// empty if there is none, and whether it moves along with a class of its namespace.
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
			continue // it is not this class's
		}
		if held(one) && (user == "" || one.Name < user) {
			user = one.Name
		}
		if _, marked := one.Labels[capi.MoveLabel]; marked && same {
			moves = true
		}
	}
	return user, moves, nil
}

// held reports whether MCMMachines need the class.
func held(class *machinev1.MachineClass) bool {
	return slices.Contains(class.Finalizers, machinev1.InUseFinalizer)
}
