package capi

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/stack"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestTargetNamespace: in whatever namespace clusterctl installs a provider, its account creates the Secrets that it
// needs and none that becomes the token of another account, and clusterctl removes the policies that see to that.
func TestTargetNamespace(t *testing.T) {
	t.Parallel()
	a := require(t)
	c := cluster.ForTest(t, cluster.Options{
		Controllers: cluster.Controllers("clusterrole-aggregation-controller"),
		Manifests:   []string{filepath.Join(a.capi, "cert-manager")},
	})
	ctl := newClusterctl(t, a)
	ctl.must(t, nil, "init", "--kubeconfig", c.Kubeconfig(), "--target-namespace", "elsewhere",
		"--core", "cluster-api:"+core, "--infrastructure", "capmcm", "--bootstrap", "capmcm", "--control-plane", "capmcm")
	admin, err := client.New(c.Config(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"capmcm-bootstrap-secret-types", "capmcm-control-plane-secret-types", "capmcm-secret-types"}
	checkPolicies(t, admin, want...)
	for _, account := range []string{"capmcm-bootstrap-manager", "capmcm-control-plane-manager"} {
		config, err := c.ConfigFor("system:serviceaccount:elsewhere:" + account)
		if err != nil {
			t.Fatal(err)
		}
		as, err := client.New(config, client.Options{})
		if err != nil {
			t.Fatal(err)
		}
		create := func(ctx context.Context, kind corev1.SecretType) error {
			return as.Create(ctx, &corev1.Secret{Type: kind, ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceDefault, GenerateName: "secret-",
				Annotations: map[string]string{corev1.ServiceAccountNameKey: "default"},
			}})
		}
		if err := create(t.Context(), clusterv1.ClusterSecretType); err != nil {
			t.Errorf("%s creates what it needs: %v", account, err)
		}
		err = stack.Until(t.Context(), time.Minute, func(ctx context.Context) error { // policies are read a moment later
			err := create(ctx, corev1.SecretTypeServiceAccountToken)
			if apierrors.IsForbidden(err) && strings.Contains(err.Error(), "ValidatingAdmissionPolicy") {
				return nil
			}
			return fmt.Errorf("%s creates what becomes a token: %w, want it refused by the policy", account, err)
		})
		if err != nil {
			t.Error(err)
		}
	}
	ctl.must(t, nil, "delete", "--kubeconfig", c.Kubeconfig(), "--bootstrap", "capmcm")
	checkPolicies(t, admin, want[1:]...)
}

// checkPolicies: these policies and their bindings exist, and no others do.
func checkPolicies(t *testing.T, cl client.Client, want ...string) {
	t.Helper()
	policies, bindings := &admissionv1.ValidatingAdmissionPolicyList{}, &admissionv1.ValidatingAdmissionPolicyBindingList{}
	for _, list := range []client.ObjectList{policies, bindings} {
		if err := cl.List(t.Context(), list); err != nil {
			t.Fatal(err)
		}
	}
	var names, bound []string
	for i := range policies.Items {
		names = append(names, policies.Items[i].Name)
	}
	for i := range bindings.Items {
		bound = append(bound, bindings.Items[i].Spec.PolicyName)
	}
	for what, got := range map[string][]string{"policies": names, "bindings": bound} {
		if strings.Join(got, " ") != strings.Join(want, " ") {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
}
