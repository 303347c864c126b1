package plan

import (
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/cluster"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

// TestAPIServer has a real API server answer the dry runs: it judges them by its rules, writes nothing,
// and lets a reader see the same plan with a warning.
func TestAPIServer(t *testing.T) {
	t.Parallel()
	root, err := cluster.Root()
	if err != nil {
		t.Fatal(err)
	}
	server := cluster.ForTest(t, cluster.Options{Manifests: []string{
		filepath.Join(root, "config", "crd"), filepath.Join(root, "config", "rbac", "reader_role.yaml"),
	}})
	admin := connected(t, server.Config())
	for _, namespace := range []string{garden, "shop"} {
		create(t, admin, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	before := pooled(t, admin)
	changed := edited(t, "pool", before, class("medium"))
	template := edited(t, "template", fixture.MCMMachineTemplate("blue", "prod", "",
		fixture.In[*infrav1.MCMMachineTemplate](garden)), func(*infrav1.MCMMachineTemplate) {})
	impersonated := server.Config()
	impersonated.Impersonate = rest.ImpersonationConfig{UserName: "reader", Groups: []string{"system:authenticated"}}
	for reason, tc := range map[string]struct {
		api  client.Client
		args []string
		code int
		want []string
	}{
		"the dry run is answered": {admin, []string{"-f", changed}, 0, []string{"3 created", "class.name"}},
		"a rule of a CRD refuses": {admin, []string{"-f", template}, exitRefused, []string{"Refused", "machineClassRef"}},
		"a reader's role suffices": {
			connected(t, impersonated), []string{"-f", changed}, 0, []string{"3 created", "has not judged"},
		},
	} {
		text, code := run(t, tc.api, append([]string{"plan"}, tc.args...)...)
		for _, want := range tc.want {
			if code != tc.code || !strings.Contains(text, want) {
				t.Errorf("%s: exit code %d, want %d and %q\n%s", reason, code, tc.code, want, text)
			}
		}
	}
	after := &machinev1.MachineDeployment{}
	if err := admin.Get(t.Context(), client.ObjectKeyFromObject(before), after); err != nil ||
		after.ResourceVersion != before.ResourceVersion {
		t.Errorf("the pool was written: %v, version %s, was %s", err, after.ResourceVersion, before.ResourceVersion)
	}
}

func connected(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	c, err := client.New(config, client.Options{Scheme: scheme(t)})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func create(t *testing.T, c client.Client, o client.Object) {
	t.Helper()
	o.SetUID("")
	o.SetCreationTimestamp(metav1.Time{})
	if err := c.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
}

// pooled creates a pool that has three machines to make, another class, and who may read.
func pooled(t *testing.T, admin client.Client) *machinev1.MachineDeployment {
	t.Helper()
	d := nativePool()[0].(*machinev1.MachineDeployment)
	create(t, admin, d)
	for _, name := range []string{"small", "medium"} {
		create(t, admin, fixture.MachineClass(name, fixture.In[*machinev1.MachineClass](garden)))
	}
	create(t, admin, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "reader"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "kubectl-mcm-reader"},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "reader"}},
	})
	return d
}
