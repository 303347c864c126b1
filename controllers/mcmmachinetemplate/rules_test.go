package mcmmachinetemplate

import (
	"path/filepath"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
)

// TestRules has a real API server say which templates it takes.
func TestRules(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	server := cluster.ForTest(t, cluster.Options{Manifests: []string{
		filepath.Join(root, "config", "crd", "infrastructure.cluster.x-k8s.io_mcmmachinetemplates.yaml"),
	}})
	s := runtime.NewScheme()
	if err := infrav1.AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(server.Config(), client.Options{Scheme: s})
	if err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason, id, class string
		refused           string
	}{
		"class": {reason: "A template names a class.", class: "a"},
		"none":  {reason: "Without a class nothing can be made.", refused: "spec.template.spec.machineClassRef.name"},
		"provider": {
			reason: "All its machines would be one VM, and the first to go would take it along.", class: "a",
			id: "sim:///z/i", refused: "spec.providerID names one VM",
		},
	}
	for name, tc := range cases {
		o := &infrav1.MCMMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default"}}
		o.Spec.Template.Spec.ProviderID, o.Spec.Template.Spec.MachineClassRef.Name = tc.id, tc.class
		err := c.Create(t.Context(), o)
		if refused := apierrors.IsInvalid(err); refused != (tc.refused != "") || refused &&
			!strings.Contains(err.Error(), tc.refused) {
			t.Errorf("%s: %v, want it refused for %q: %s", name, err, tc.refused, tc.reason)
		}
	}
}
