package class

import (
	"context"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/index"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/outcome"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/watch"
)

// Secrets keeps the finalizer on a Secret for as long as a MachineClass names it.
type Secrets struct {
	client   client.Client
	reporter *reporter
}

// NewSecrets returns a Secrets that has not reported anything yet.
func NewSecrets(d Deps) *Secrets {
	return &Secrets{client: d.Client, reporter: newReporter(d.Events)}
}

// Reconcile adds or removes the finalizer of a Secret. It does not touch a Secret
// that no class names or has named.
func (s *Secrets) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	object, err := watch.SecretMetadata(ctx, s.client, req.NamespacedName)
	if err != nil {
		if client.IgnoreNotFound(err) == nil {
			s.reporter.forget(req.NamespacedName)
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
		s.reporter.once(object, "deletion", warning{
			eventDeletionWaits,
			fmt.Sprintf("Deletion waits for MachineClass %s, which names this Secret; delete that first", user),
		})
	}
	return outcome.Of(0, patchFinalizers(ctx, s.client, object, changed))
}

// user returns the first class, by namespace and name, that names the Secret in
// one of its references; empty if there is none.
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
