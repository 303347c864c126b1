package class

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
)

// Where the Cluster API kinds name a class.
const (
	classRefField    = "spec.machineClassRef.name"
	templateRefField = "spec.template.spec.machineClassRef.name"
)

// ResolveForClusterAPI is Resolve by the rules of the Cluster API kinds: a Secret of
// another namespace counts only if it allows the class's namespace itself, a class
// is protected by their finalizer, and problems name their fields.
func (r *Resolver) ResolveForClusterAPI(ctx context.Context, c client.Reader, namespace, name string) (Resolved,
	error,
) {
	return r.resolveAt(ctx, c, namespace, name, classRefField)
}

// ResolveForTemplate is ResolveForClusterAPI for a template, whose fields it names.
func (r *Resolver) ResolveForTemplate(ctx context.Context, c client.Reader, namespace, name string) (Resolved, error) {
	return r.resolveAt(ctx, c, namespace, name, templateRefField)
}

func (r *Resolver) resolveAt(ctx context.Context, c client.Reader, namespace, name, field string) (Resolved, error) {
	guarded := &guard{Reader: c, namespace: namespace, refused: map[client.ObjectKey]bool{}}
	out, err := r.resolve(ctx, guarded, namespace, name, true)
	if err != nil {
		return Resolved{}, err
	}
	out.Protected = out.Object != nil && slices.Contains(out.Object.Finalizers, machinev1.InUseFinalizer)
	out.Problems = slices.Clone(out.Problems)
	for i := range out.Problems {
		if out.Problems[i].Field == "spec.class.name" {
			out.Problems[i].Field = field
		}
	}
	out.explainRefused(guarded.refused)
	out.refuseLegacy()
	out.Account = r.account(out)
	return out, nil
}

// refuseLegacy adds that the class's driver is legacy: the VMs of two machines could not be told
// apart by their owners. It rules out everything, also the deletion of what never was created.
func (r *Resolved) refuseLegacy() {
	if r.Driver == nil || !r.Driver.Traits().Legacy {
		return
	}
	r.Problems = slices.Insert(r.Problems, 0, cloud.Problem{
		Severity: cloud.BlocksAll, Field: "provider",
		Message: fmt.Sprintf("the driver for %q was written for Machine Controller Manager and keeps no owner of a VM, "+
			"which Cluster API machines need; name a class of another driver, or use the native API", r.Object.Provider),
	})
	r.reasons = slices.Insert(r.reasons, 0, machinev1.ReasonInvalidSpec)
}

// explainRefused gives the Secrets that were refused their reason.
func (r *Resolved) explainRefused(refused map[client.ObjectKey]bool) {
	if r.Object == nil || len(refused) == 0 {
		return
	}
	for _, ref := range secretRefs(r.Object) {
		if !refused[ref.Key] {
			continue
		}
		for i := range r.Problems {
			if r.Problems[i].Field == ref.Field && r.reasons[i] == machinev1.ReasonSecretNotFound {
				r.reasons[i] = infrav1.ReasonSecretNotAllowed
				r.Problems[i].Message = notAllowed(ref.Key, r.Object.Namespace)
			}
		}
	}
}

func notAllowed(secret client.ObjectKey, namespace string) string {
	return fmt.Sprintf("Secret %s is of another namespace and does not allow this one; name a Secret of namespace %q, "+
		"or set the annotation %s=%s on that Secret",
		secret, namespace, machinev1.AllowedNamespacesAnnotation, namespace)
}

// guard is a reader that shows a Secret of another namespace only where that Secret
// allows it.
type guard struct {
	client.Reader
	namespace string
	refused   map[client.ObjectKey]bool
}

// Get reads an object; a Secret that is refused does not exist.
func (g *guard) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := g.Reader.Get(ctx, key, o, opts...); err != nil {
		return err
	}
	secret, ok := o.(*corev1.Secret)
	if !ok || key.Namespace == g.namespace || Allows(secret, g.namespace) {
		return nil
	}
	g.refused[key] = true
	secret.Data = nil
	return apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, key.Name)
}

// Allows reports whether the classes of a namespace may name the Secret.
func Allows(secret *corev1.Secret, namespace string) bool {
	for allowed := range strings.SplitSeq(secret.Annotations[machinev1.AllowedNamespacesAnnotation], ",") {
		if allowed = strings.TrimSpace(allowed); allowed == "*" || allowed == namespace {
			return true
		}
	}
	return false
}
