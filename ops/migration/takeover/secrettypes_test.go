package takeover

import (
	"context"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestSecretTypesOfTheTarget: a cluster with nodes that does not limit the Secrets of the manager is
// reported, and is not in the way.
func TestSecretTypesOfTheTarget(t *testing.T) {
	t.Parallel()
	kinds := schema.GroupKind{Group: admissionv1.GroupName, Kind: "ValidatingAdmissionPolicy"}
	for _, c := range []struct {
		reason, folder string
		spoil          func(*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding)
		fails          error
		level          migration.Level
		want           string
	}{
		{
			reason: "what the release has for such a cluster", folder: "target-cluster",
			level: migration.Kept, want: "create only the Secrets that the manager needs",
		},
		{
			reason: "the native bundle has its own, where the objects are in the same cluster", folder: "rbac",
			level: migration.Kept, want: "machine-controller-manager-secret-types",
		},
		{reason: "there is none", level: migration.Advised, want: "token of every ServiceAccount"},
		{
			reason: "a binding that only warns limits nothing", folder: "target-cluster",
			spoil: func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
				b.Spec.ValidationActions = []admissionv1.ValidationAction{admissionv1.Warn}
			},
			level: migration.Advised, want: "token of every ServiceAccount",
		},
		{
			reason: "a binding to some namespaces leaves the others", folder: "target-cluster",
			spoil: func(_ *admissionv1.ValidatingAdmissionPolicy, b *admissionv1.ValidatingAdmissionPolicyBinding) {
				b.Spec.MatchResources = &admissionv1.MatchResources{}
			},
			level: migration.Advised, want: "token of every ServiceAccount",
		},
		{
			reason: "a policy that is open when it fails can be made to fail", folder: "target-cluster",
			spoil: func(p *admissionv1.ValidatingAdmissionPolicy, _ *admissionv1.ValidatingAdmissionPolicyBinding) {
				p.Spec.FailurePolicy = new(admissionv1.Ignore)
			},
			level: migration.Advised, want: "token of every ServiceAccount",
		},
		{
			reason: "who takes over need not administer that cluster", level: migration.Advised, want: "may not be read",
			fails: apierrors.NewForbidden(schema.GroupResource{Resource: "validatingadmissionpolicies"}, "x", nil),
		},
		{
			reason: "an API server before 1.30 has no such kind", level: migration.Advised, want: "from Kubernetes 1.30 on",
			fails: &meta.NoKindMatchError{GroupKind: kinds},
		},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			got, err := ReadSecretTypes(t.Context(), targetWith(t, c.folder, c.spoil, c.fails))
			if err != nil {
				t.Fatal(err)
			}
			found := takeoverSecretTypes(got)
			if len(found) != 1 || found[0].Level != c.level || !strings.Contains(found[0].String(), c.want) {
				t.Errorf("%v, want %s with %q", found, c.level, c.want)
			}
			if anyBlocked(found) {
				t.Errorf("%v is in the way of a takeover", found)
			}
		})
	}
	if _, err := ReadSecretTypes(t.Context(), targetWith(t, "", nil, apierrors.NewTimeoutError("slow", 1))); err == nil {
		t.Error("an API server that does not answer is no answer")
	}
	if found := takeoverSecretTypes(SecretTypes{}); found != nil {
		t.Errorf("%v is said of a cluster that was not asked", found)
	}
}

// targetWith is a cluster with the policy and the binding of a folder of config; none for "".
func targetWith(t *testing.T, folder string,
	spoil func(*admissionv1.ValidatingAdmissionPolicy, *admissionv1.ValidatingAdmissionPolicyBinding), fails error,
) client.Reader {
	t.Helper()
	var objects []client.Object
	if folder != "" {
		policy, binding := &admissionv1.ValidatingAdmissionPolicy{}, &admissionv1.ValidatingAdmissionPolicyBinding{}
		decode(t, "../../../config/"+folder+"/secret_types_policy.yaml", policy)
		decode(t, "../../../config/"+folder+"/secret_types_binding.yaml", binding)
		if spoil != nil {
			spoil(policy, binding)
		}
		objects = append(objects, policy, binding)
	}
	return interceptor.NewClient(fake.NewClientBuilder().WithObjects(objects...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object,
			opts ...client.GetOption,
		) error {
			if fails != nil {
				return fails
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
}

// decode reads the one object of a file.
func decode(t *testing.T, file string, into client.Object) {
	t.Helper()
	all, err := cluster.Read(file)
	if err != nil || len(all) != 1 {
		t.Fatalf("%s has %d objects: %v", file, len(all), err)
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(all[0].Object, into); err != nil {
		t.Fatal(err)
	}
}
