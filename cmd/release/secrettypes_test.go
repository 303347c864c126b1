package main

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// accountToken is the type that kube-controller-manager fills with the token of a ServiceAccount.
const accountToken = corev1.SecretTypeServiceAccountToken

// TestSecretTypes has a real API server say what the accounts of a release may create and change: the types
// of Secrets that their code writes, and never one that becomes the token of another ServiceAccount.
// Roles are not what limits them here: each account may write all Secrets.
func TestSecretTypes(t *testing.T) {
	t.Parallel()
	server := cluster.ForTest(t, cluster.Options{Controllers: []string{"serviceaccount-token-controller"}})
	s := &secretWorld{t: t, server: server, admin: kubernetes.NewForConfigOrDie(server.Config())}
	s.install(written(t))
	for _, tc := range []struct {
		reason  string
		account string // namespace:name
		writes  []corev1.SecretType
	}{
		{
			"infrastructure keeps consoles where its role is bound", "capmcm-system:capmcm-manager",
			[]corev1.SecretType{machinev1.ConsoleEvidenceType},
		},
		{
			"bootstrap creates boot data", "capmcm-bootstrap-system:capmcm-bootstrap-manager",
			[]corev1.SecretType{clusterv1.ClusterSecretType},
		},
		{
			"clusterctl's --target-namespace moves the account, not the expression", "elsewhere:capmcm-bootstrap-manager",
			[]corev1.SecretType{clusterv1.ClusterSecretType},
		},
		{
			"the control plane creates kubeconfigs", "capmcm-control-plane-system:capmcm-control-plane-manager",
			[]corev1.SecretType{clusterv1.ClusterSecretType},
		},
		{
			"the runtime extension creates none", "capmcm-runtime-extension-system:capmcm-runtime-extension-manager", nil,
		},
		{
			"the native API creates bootstrap tokens, and keeps consoles",
			"machine-controller-manager:machine-controller-manager",
			[]corev1.SecretType{corev1.SecretTypeBootstrapToken, machinev1.ConsoleEvidenceType},
		},
		{
			"the identity of a self-hosted Cluster creates bootstrap tokens", "tenant:mcm-prod-0a1b2c3d",
			[]corev1.SecretType{corev1.SecretTypeBootstrapToken},
		},
		{
			"Gardener's account in a shoot creates bootstrap tokens", "kube-system:machine-controller-manager",
			[]corev1.SecretType{corev1.SecretTypeBootstrapToken, machinev1.ConsoleEvidenceType},
		},
		{
			"the user of a workload cluster's kubeconfig creates bootstrap tokens", "kube-system:capmcm",
			[]corev1.SecretType{corev1.SecretTypeBootstrapToken, machinev1.ConsoleEvidenceType},
		},
	} {
		t.Run(tc.reason, func(t *testing.T) {
			as := s.as("system:serviceaccount:" + tc.account)
			s.checkNoTokens(t, as)
			s.checkCreates(t, as, tc.writes)
			s.checkChanges(t, as)
		})
	}
	t.Run("self-hosted Clusters' roles are bound to their identities only", s.checkBindings)
	t.Run("other users are unaffected", func(t *testing.T) { s.checkOthers(t, s.as("alice")) })
	t.Run("ServiceAccounts of other names are unaffected", func(t *testing.T) {
		s.checkOthers(t, s.as("system:serviceaccount:default:not-capmcm-manager"))
	})
}

// secretWorld is an API server with the permissions and policies of a release.
type secretWorld struct {
	t      *testing.T
	server *cluster.Cluster
	admin  kubernetes.Interface
	count  int
}

// install applies what the bundles say about permissions, and a ServiceAccount whose token is not to be had.
func (s *secretWorld) install(out string) {
	s.t.Helper()
	var all []*unstructured.Unstructured
	for _, b := range bundles() {
		for _, o := range objects(s.t, filepath.Join(out, b.label, "v0.1.7", b.file)) {
			group := o.GroupVersionKind().Group
			if b.config == "native-bundle" || b.config == monitoring || b.config == "simcloud" || o.GetKind() != "Namespace" &&
				o.GetKind() != "ServiceAccount" && group != rbacv1.GroupName && group != admissionv1.GroupName {
				continue // the native API is there once; others need CRDs
			}
			if b.config == "self-hosted/namespace" {
				o.SetNamespace(metav1.NamespaceDefault)
			}
			all = append(all, o)
		}
	}
	ctx := s.t.Context()
	if err := s.server.Apply(ctx, all...); err != nil {
		s.t.Fatal(err)
	}
	_, err := s.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Create(ctx,
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "victim"}}, metav1.CreateOptions{})
	if err != nil {
		s.t.Fatal(err)
	}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "all-secrets"}, Rules: []rbacv1.PolicyRule{{
		APIGroups: []string{""}, Resources: []string{"secrets"},
		Verbs: []string{"get", "create", "update", "patch", "delete"},
	}}}
	if _, err := s.admin.RbacV1().ClusterRoles().Create(ctx, role, metav1.CreateOptions{}); err != nil {
		s.t.Fatal(err)
	}
}

// as is a client of a user who may write all Secrets.
func (s *secretWorld) as(user string) kubernetes.Interface {
	s.t.Helper()
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "all-secrets:" + user},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "all-secrets"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}},
	}
	_, err := s.admin.RbacV1().ClusterRoleBindings().Create(s.t.Context(), binding, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		s.t.Fatal(err)
	}
	config, err := s.server.ConfigFor(user)
	if err != nil {
		s.t.Fatal(err)
	}
	as := kubernetes.NewForConfigOrDie(config)
	err = wait.PollUntilContextTimeout(s.t.Context(), 50*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) { // the API server notices a moment later
			_, err := as.CoreV1().Secrets(metav1.NamespaceDefault).Get(ctx, "none", metav1.GetOptions{})
			return apierrors.IsNotFound(err), nil
		})
	if err != nil {
		s.t.Fatal(err)
	}
	return as
}

// secret is a new one of a type, complete as the API server wants it.
func (s *secretWorld) secret(kind corev1.SecretType) *corev1.Secret {
	s.count++
	secret := &corev1.Secret{Type: kind, Data: map[string][]byte{"value": []byte("x")}}
	secret.Namespace, secret.Name = metav1.NamespaceDefault, fmt.Sprintf("secret-%d", s.count)
	switch kind {
	case accountToken:
		secret.Data = nil
		secret.Annotations = map[string]string{corev1.ServiceAccountNameKey: "victim"}
	case corev1.SecretTypeBootstrapToken:
		id := fmt.Sprintf("abc%03d", s.count)
		secret.Namespace, secret.Name = metav1.NamespaceSystem, "bootstrap-token-"+id
		secret.Data = map[string][]byte{"token-id": []byte(id), "token-secret": []byte("0123456789abcdef")}
	case corev1.SecretTypeTLS:
		secret.Data = map[string][]byte{corev1.TLSCertKey: []byte("x"), corev1.TLSPrivateKeyKey: []byte("x")}
	}
	return secret
}

func create(ctx context.Context, as kubernetes.Interface, secret *corev1.Secret) error {
	_, err := as.CoreV1().Secrets(secret.Namespace).Create(ctx, secret, metav1.CreateOptions{})
	return err
}

// refused reports whether a policy of the release has refused a request, and not the roles.
func refused(err error) bool {
	return apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy")
}

// checkNoTokens: in no way can the account create a Secret that becomes the token of another one. The first
// answer may be from before the API server has read the policy.
func (s *secretWorld) checkNoTokens(t *testing.T, as kubernetes.Interface) {
	t.Helper()
	var last error
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, 30*time.Second, true,
		func(ctx context.Context) (bool, error) {
			last = create(ctx, as, s.secret(accountToken))
			return refused(last), nil
		})
	if err != nil {
		t.Errorf("create a Secret of type %s: %v, want it refused by a policy", accountToken, last)
	}
	generated := s.secret(accountToken)
	generated.Name, generated.GenerateName = "", "token-"
	if err := create(t.Context(), as, generated); !refused(err) {
		t.Errorf("with generateName: %v, want it refused", err)
	}
	given := s.secret(accountToken)
	given.StringData = map[string]string{"token": "x"}
	if err := create(t.Context(), as, given); !refused(err) {
		t.Errorf("with stringData: %v, want it refused", err)
	}
	o := s.secret(accountToken)
	applied := applycorev1.Secret(o.Name, o.Namespace).WithType(o.Type).WithAnnotations(o.Annotations)
	_, err = as.CoreV1().Secrets(o.Namespace).Apply(t.Context(), applied, metav1.ApplyOptions{FieldManager: "test"})
	if !refused(err) {
		t.Errorf("by server-side apply: %v, want it refused", err)
	}
}

// checkCreates: the account creates, and changes, the types that its code writes, and no others.
func (s *secretWorld) checkCreates(t *testing.T, as kubernetes.Interface, writes []corev1.SecretType) {
	t.Helper()
	for _, kind := range []corev1.SecretType{
		clusterv1.ClusterSecretType, corev1.SecretTypeBootstrapToken, machinev1.ConsoleEvidenceType,
		corev1.SecretTypeOpaque, "", corev1.SecretTypeTLS,
	} {
		secret := s.secret(kind)
		err := create(t.Context(), as, secret)
		switch written := slices.Contains(writes, kind); {
		case written && err != nil:
			t.Errorf("create a Secret of type %s: %v", kind, err)
		case !written && !refused(err):
			t.Errorf("create a Secret of type %q: %v, want it refused", kind, err)
		case written:
			if err := patchSecret(t.Context(), as, secret, `{"data":{"value":"eQ=="}}`); err != nil {
				t.Errorf("change data of a Secret of type %s: %v", kind, err)
			}
		}
	}
}

func patchSecret(ctx context.Context, as kubernetes.Interface, secret *corev1.Secret, patch string) error {
	_, err := as.CoreV1().Secrets(secret.Namespace).Patch(ctx, secret.Name, types.MergePatchType, []byte(patch),
		metav1.PatchOptions{})
	return err
}

// checkChanges: users' Secrets get finalizers and labels, and keep their data and their ServiceAccount.
func (s *secretWorld) checkChanges(t *testing.T, as kubernetes.Interface) {
	t.Helper()
	for _, kind := range []corev1.SecretType{corev1.SecretTypeOpaque, accountToken} {
		secret := s.secret(kind)
		if err := create(t.Context(), s.admin, secret); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			reason, patch string
			allowed       bool
		}{
			{"held while in use", `{"metadata":{"finalizers":["mcm.cluster.x-k8s.io/test"]}}`, true},
			{"moved along", `{"metadata":{"labels":{"clusterctl.cluster.x-k8s.io/move":""}}}`, true},
			{"let go", `{"metadata":{"finalizers":null}}`, true},
			{"another value", `{"data":{"value":"eQ=="}}`, false},
			{"another value, as text", `{"stringData":{"value":"y"}}`, false},
			{
				"the token controller would fill it for another account",
				`{"metadata":{"annotations":{"kubernetes.io/service-account.name":"another",` +
					`"kubernetes.io/service-account.uid":null}}}`,
				false,
			},
		} {
			err := patchSecret(t.Context(), as, secret, c.patch)
			if c.allowed && err != nil || !c.allowed && !refused(err) {
				t.Errorf("%s: patch a Secret of type %s: %v, want allowed: %t", c.reason, kind, err, c.allowed)
			}
		}
	}
}

// checkOthers: another user creates every type, and gets the token of the ServiceAccount, which is why the
// managers may not.
func (s *secretWorld) checkOthers(t *testing.T, as kubernetes.Interface) {
	t.Helper()
	for _, kind := range []corev1.SecretType{
		clusterv1.ClusterSecretType, corev1.SecretTypeBootstrapToken, corev1.SecretTypeOpaque, corev1.SecretTypeTLS,
	} {
		secret := s.secret(kind)
		if err := create(t.Context(), as, secret); err != nil {
			t.Errorf("create a Secret of type %s: %v", kind, err)
		}
		if err := patchSecret(t.Context(), as, secret, `{"data":{"value":"eQ=="}}`); err != nil {
			t.Errorf("change a Secret of type %s: %v", kind, err)
		}
	}
	secret := s.secret(accountToken)
	if err := create(t.Context(), as, secret); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 100*time.Millisecond, time.Minute, true,
		func(ctx context.Context) (bool, error) {
			read, err := as.CoreV1().Secrets(secret.Namespace).Get(ctx, secret.Name, metav1.GetOptions{})
			return err == nil && len(read.Data[corev1.ServiceAccountTokenKey]) > 0, err
		})
	if err != nil {
		t.Errorf("no token in the Secret: %v", err)
	}
}

// checkBindings: an account that no policy knows is not given the right to create Secrets of kube-system by the
// control plane provider, which may bind the roles of self-hosted Clusters where that is opted in.
func (s *secretWorld) checkBindings(t *testing.T) {
	as := s.as("system:serviceaccount:capmcm-control-plane-system:capmcm-control-plane-manager")
	account := func(name string) rbacv1.Subject {
		return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: metav1.NamespaceDefault, Name: name}
	}
	group := rbacv1.Subject{APIGroup: rbacv1.GroupName, Kind: rbacv1.GroupKind, Name: "system:serviceaccounts"}
	for i, c := range []struct {
		reason   string
		by       kubernetes.Interface
		subjects []rbacv1.Subject
		allowed  bool
	}{
		{"the identity of a self-hosted Cluster", as, []rbacv1.Subject{account("mcm-prod-0a1b2c3d")}, true},
		{"an account whose token the provider can have", as, []rbacv1.Subject{account("victim")}, false},
		{"beside one that is", as, []rbacv1.Subject{account("mcm-prod-0a1b2c3d"), account("victim")}, false},
		{"all accounts", as, []rbacv1.Subject{group}, false},
		{"other users bind what they like", s.admin, []rbacv1.Subject{account("victim")}, true},
	} {
		_, err := c.by.RbacV1().RoleBindings(metav1.NamespaceSystem).Create(t.Context(), &rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("tokens-%d", i)}, Subjects: c.subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capmcm-workload-tokens"},
		}, metav1.CreateOptions{})
		if c.allowed && err != nil || !c.allowed && !refused(err) {
			t.Errorf("%s: bind capmcm-workload-tokens: %v, want allowed: %t", c.reason, err, c.allowed)
		}
		_, err = c.by.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("workload-%d", i)}, Subjects: c.subjects,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "capmcm-workload"},
		}, metav1.CreateOptions{})
		if c.allowed && err != nil || !c.allowed && !refused(err) {
			t.Errorf("%s: bind capmcm-workload: %v, want allowed: %t", c.reason, err, c.allowed)
		}
	}
}
