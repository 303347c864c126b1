package machineclass

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
)

// Secrets holds a Secret for as long as a MachineClass names it.
type Secrets struct {
	client client.Client
	tell   *teller
}

// NewSecrets returns a Secrets that has told nobody anything yet.
func NewSecrets(d Deps) *Secrets {
	return &Secrets{client: d.Client, tell: newTeller(d.Events)}
}

// Reconcile brings the Secret's finalizer into line with its use. A Secret that
// no class names, and none has named, is not touched.
func (s *Secrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object := &corev1.Secret{}
	if err := s.client.Get(ctx, req.NamespacedName, object); err != nil {
		if client.IgnoreNotFound(err) == nil {
			s.tell.forget(req.NamespacedName)
			return reconcile.Result{}, nil
		}
		return outcome.Of(0, fmt.Errorf("read Secret: %w", err))
	}
	user, err := s.user(ctx, req.NamespacedName)
	if err != nil {
		return outcome.Of(0, err)
	}
	changed := object.DeepCopy()
	switch {
	case user == "":
		controllerutil.RemoveFinalizer(changed, machinev1.SecretFinalizer)
	case object.DeletionTimestamp.IsZero():
		controllerutil.AddFinalizer(changed, machinev1.SecretFinalizer)
	default:
		text := fmt.Sprintf("Deletion waits for MachineClass %s, which names this Secret", user)
		s.tell.onceFor(object, "deletion", []string{EventDeletionWaits}, []string{text})
	}
	return outcome.Of(0, patchFinalizers(ctx, s.client, object, changed))
}

// user returns the first class by name that names the Secret in one of its
// references, empty if there is none.
func (s *Secrets) user(ctx context.Context, secret client.ObjectKey) (string, error) {
	var list machinev1.MachineClassList
	if err := s.client.List(ctx, &list, client.MatchingFields{index.ClassBySecret: secret.String()}); err != nil {
		return "", fmt.Errorf("look up MachineClasses of Secret %s: %w", secret, err)
	}
	first := ""
	for i := range list.Items {
		if name := client.ObjectKeyFromObject(&list.Items[i]).String(); first == "" || name < first {
			first = name
		}
	}
	return first, nil
}
