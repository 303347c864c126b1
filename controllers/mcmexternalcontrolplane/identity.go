package mcmexternalcontrolplane

import (
	"context"
	"crypto/sha256"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	controlplanev1 "github.com/capmcm/cluster-api-provider-mcm/api/controlplane/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/patch"
)

// accountName is the name of the ServiceAccount, and of what is in its namespace.
func accountName(cp *controlplanev1.MCMExternalControlPlane) string {
	return shortName("mcm-"+cp.Name, cp.Name)
}

// bindingName is the name of what is not in the namespace.
func bindingName(cp *controlplanev1.MCMExternalControlPlane) string {
	return shortName(fmt.Sprintf("mcm-%s-%s", cp.Namespace, cp.Name), cp.Namespace+"/"+cp.Name)
}

// shortName is text and a hash of id, short enough for a name. Unlike the text,
// the hash is another for any other id.
func shortName(text, id string) string {
	const longest, hash = 253, 9
	if len(text) > longest-hash {
		text = text[:longest-hash]
	}
	return fmt.Sprintf("%s-%x", text, sha256.Sum256([]byte(id)))[:len(text)+hash]
}

func madeFor(cp *controlplanev1.MCMExternalControlPlane) string { return cp.Namespace + "/" + cp.Name }

// identity are the ServiceAccount of a self-hosted Cluster and its permissions, in the
// order in which they are made. None has an owner reference: after a move its
// owner is in another cluster, and the machines still need it here.
func (c *Controller) identity(cp *controlplanev1.MCMExternalControlPlane) []client.Object {
	account, binding := accountName(cp), bindingName(cp)
	at := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{
			Namespace: namespace, Name: name,
			Annotations: map[string]string{controlplanev1.MadeForAnnotation: madeFor(cp)},
		}
	}
	subjects := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: cp.Namespace, Name: account}}
	to := func(kind, name string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: name}
	}
	return []client.Object{
		&corev1.ServiceAccount{ObjectMeta: at(cp.Namespace, account), AutomountServiceAccountToken: new(false)},
		// It may renew its own token, so that another management cluster can, after a move.
		&rbacv1.Role{ObjectMeta: at(cp.Namespace, account), Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account},
			Verbs: []string{"create"},
		}}},
		&rbacv1.RoleBinding{ObjectMeta: at(cp.Namespace, account), RoleRef: to("Role", account), Subjects: subjects},
		&rbacv1.RoleBinding{
			ObjectMeta: at(metav1.NamespaceSystem, binding), RoleRef: to("ClusterRole", c.Roles.Tokens),
			Subjects: subjects,
		},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: at("", binding), RoleRef: to("ClusterRole", c.Roles.Workload),
			Subjects: subjects,
		},
	}
}

// mayMakeIdentity returns an error if this manager has not got the permissions of
// config/self-hosted, which are opt-in.
func (c *Controller) mayMakeIdentity(ctx context.Context, cp *controlplanev1.MCMExternalControlPlane) error {
	for _, o := range c.identity(cp) {
		if err := c.Live.Get(ctx, client.ObjectKeyFromObject(o), o); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read %s: %w", nameOf(o), err)
		}
	}
	return nil
}

// ensureIdentity makes what is missing of the identity and returns its ServiceAccount.
func (c *Controller) ensureIdentity(ctx context.Context, s *scope) (*corev1.ServiceAccount, error) {
	all := c.identity(s.cp)
	for i, want := range all {
		got, err := c.ensure(ctx, s.cp, want)
		if err != nil {
			return nil, err
		}
		all[i] = got
	}
	return all[0].(*corev1.ServiceAccount), nil
}

// ensure makes want, or puts it right, and returns it as it is then.
func (c *Controller) ensure(ctx context.Context, cp *controlplanev1.MCMExternalControlPlane,
	want client.Object,
) (client.Object, error) {
	existing := want.DeepCopyObject().(client.Object)
	err := c.Live.Get(ctx, client.ObjectKeyFromObject(want), existing)
	switch {
	case apierrors.IsNotFound(err):
		return want, c.make(ctx, want)
	case err != nil:
		return nil, fmt.Errorf("read %s: %w", nameOf(want), err)
	case existing.GetAnnotations()[controlplanev1.MadeForAnnotation] != madeFor(cp):
		return nil, wrong(controlplanev1.ReasonIdentityTaken,
			"spec.selfHosted: %s exists and was not created for this object; remove it, or rename this object", nameOf(want))
	}
	switch changed, again := putRight(existing, want); {
	case again:
		if err := c.drop(ctx, existing); err != nil {
			return nil, err
		}
		return want, c.make(ctx, want)
	case changed != nil:
		if err := patch.Object(ctx, c.Client, existing, changed); err != nil {
			return nil, fmt.Errorf("write %s: %w", nameOf(want), err)
		}
		return changed, nil
	}
	return existing, nil
}

func (c *Controller) make(ctx context.Context, o client.Object) error {
	if err := c.Client.Create(ctx, o); err != nil {
		return fmt.Errorf("create %s: %w", nameOf(o), err)
	}
	return nil
}

// putRight returns existing with the permissions of want, nil if it has them. again
// says that it has to be recreated: which role a binding means never changes.
func putRight(existing, want client.Object) (changed client.Object, again bool) {
	switch e := existing.DeepCopyObject().(type) {
	case *rbacv1.Role:
		if w := want.(*rbacv1.Role); !equality.Semantic.DeepEqual(e.Rules, w.Rules) {
			e.Rules = w.Rules
			return e, false
		}
	case *rbacv1.RoleBinding:
		w := want.(*rbacv1.RoleBinding)
		if e.RoleRef != w.RoleRef {
			return nil, true
		}
		if !equality.Semantic.DeepEqual(e.Subjects, w.Subjects) {
			e.Subjects = w.Subjects
			return e, false
		}
	case *rbacv1.ClusterRoleBinding:
		w := want.(*rbacv1.ClusterRoleBinding)
		if e.RoleRef != w.RoleRef {
			return nil, true
		}
		if !equality.Semantic.DeepEqual(e.Subjects, w.Subjects) {
			e.Subjects = w.Subjects
			return e, false
		}
	}
	return nil, false
}

// drop deletes exactly that object; one that is gone is fine.
func (c *Controller) drop(ctx context.Context, o client.Object) error {
	uid := o.GetUID()
	if err := c.Client.Delete(ctx, o, client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete %s: %w", nameOf(o), err)
	}
	return nil
}

func nameOf(o client.Object) string {
	kind := map[bool]string{true: "ClusterRoleBinding", false: "object"}[o.GetNamespace() == ""]
	switch o.(type) {
	case *corev1.ServiceAccount:
		kind = "ServiceAccount"
	case *rbacv1.Role:
		kind = "Role"
	case *rbacv1.RoleBinding:
		kind = "RoleBinding"
	}
	return fmt.Sprintf("%s %q", kind, client.ObjectKeyFromObject(o).String())
}
