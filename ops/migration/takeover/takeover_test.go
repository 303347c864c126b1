package takeover

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

// managersOf is a namespace with MCM's kinds and no manager that works on it.
func managersOf() *Managers {
	m := &Managers{}
	for _, plural := range nativePlurals {
		crd := apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: plural + ".machine.sapcloud.io"}}
		crd.Spec.Names.Plural = plural
		m.crds = append(m.crds, crd)
	}
	return m
}

func TestTakeover(t *testing.T) {
	t.Parallel()
	now := pools.TestBirth.Time
	for _, c := range []struct {
		reason    string
		spoil     func(*migration.Namespace, *Managers)
		want      string // in a finding's object, field or text
		safe, far bool   // there, and back
	}{
		{"the manager has to know the cloud", func(s *migration.Namespace, m *Managers) {
			s.Classes["pool-class"].Provider, m.Drivers = "GCP", []string{"aws", "sim"}
		}, `no driver for "GCP"`, false, true},
		{"a driver may be anyone's", func(s *migration.Namespace, m *Managers) {
			s.Classes["pool-class"].Provider, m.Drivers = "Nebula", []string{"nebula"}
		}, "", true, true},
		{"which clouds it knows is for the user to check", func(s *migration.Namespace, _ *Managers) {
			s.Classes["pool-class"].Provider = "Nebula"
		}, `needs a driver named "Nebula"`, true, true},
		{"a class has to name a cloud", func(s *migration.Namespace, _ *Managers) {
			s.Classes["pool-class"].Provider = ""
		}, `no driver for ""`, false, true},
		{"a quiet namespace", func(*migration.Namespace, *Managers) {}, "do no harm", true, true},
		{"MCM works", func(s *migration.Namespace, _ *Managers) {
			s.Leases = []coordinationv1.Lease{{Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       new("mcm_1"),
				LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now)),
			}}}
		}, "scale its Deployment to 0", false, true},
		{"MCM has gone", func(s *migration.Namespace, _ *Managers) {
			s.Leases = []coordinationv1.Lease{{Spec: coordinationv1.LeaseSpec{
				HolderIdentity:       new("mcm_1"),
				LeaseDurationSeconds: new(int32(15)), RenewTime: new(metav1.NewMicroTime(now.Add(-time.Hour))),
			}}}
		}, "", true, true},
		{"MCM would come back", func(_ *migration.Namespace, m *Managers) {
			d := appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "machine-controller-manager"}}
			d.Spec.Template.Spec.Containers = []corev1.Container{{Image: "registry/machine-controller-manager-provider-aws:v1"}}
			m.deployments = append(m.deployments, d)
		}, "machine-controller-manager-provider-aws", false, true},
		{
			"kinds are missing", func(_ *migration.Namespace, m *Managers) { m.crds = m.crds[1:] }, "machineclasses", false,
			true,
		},
		{"MCM's kinds prune", func(_ *migration.Namespace, m *Managers) {
			m.crds[2].Spec.Versions = []apiextensionsv1.CustomResourceDefinitionVersion{{
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"status": {
						Properties: map[string]apiextensionsv1.JSONSchemaProps{"phase": {}},
					}},
				}},
			}}
		}, "status.nodeRef", true, true},
		{"a deletion goes on", func(s *migration.Namespace, _ *Managers) {
			s.Machines[0].DeletionTimestamp = &pools.TestBirth
		}, "goes on at the step", true, true},
		{"the Node's form is asked for", func(s *migration.Namespace, _ *Managers) {
			s.Deployments[0].Annotations[machinev1.ProviderIDFormAnnotation] = machinev1.ProviderIDFormNode
		}, "remove the annotation", true, false},
		{"a providerID is in another form", func(s *migration.Namespace, _ *Managers) {
			s.Machines[0].Annotations[machinev1.ProviderIDFormAnnotation] = machinev1.ProviderIDFormMCM
		}, "VMs for orphans", true, false},
		{"a pool is between APIs", func(_ *migration.Namespace, m *Managers) {
			m.records = []migration.Record{{Pool: migration.Pool{
				Kind: migration.KindDeployment, Namespace: pools.TestNamespace,
				Name: "pool",
			}, To: migration.ClusterAPI, Phase: migration.PhaseMoved}}
		}, "although they are held", true, false},
		{"a pool has moved for good", func(s *migration.Namespace, _ *Managers) {
			s.MCMMachines = []infrav1.MCMMachine{{Spec: infrav1.MCMMachineSpec{ProviderID: "x"}}}
		}, "are orphans to it", true, false},
		{"a VM was asked for", func(s *migration.Namespace, _ *Managers) {
			s.Machines[0].Spec.ProviderID, s.Machines[0].Annotations[machinev1.CreateAttemptAnnotation] = "", "1"
		}, "make a second one", true, false},
		{"a hold keeps a VM", func(s *migration.Namespace, _ *Managers) {
			s.Machines[0].Annotations[machinev1.HoldAnnotation] = "x"
		}, "orphan collector", true, false},
		{"orphans are only told about", func(s *migration.Namespace, _ *Managers) {
			s.Classes["pool-class"].Annotations = map[string]string{machinev1.ReportOrphansAnnotation: "x"}
		}, "MCM deletes them", true, false},
	} {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			s, m := pools.Around(pools.NativePool("pool", 2)), managersOf()
			s.Classes["pool-class"].Provider = "Sim" // MCM's drivers do not mind the case
			c.spoil(s, m)
			got := Check(s, m, now)
			if got.Safe() != c.safe || got.BackSafe() != c.far {
				t.Errorf("safe %v, back %v, want %v, %v: %v %v", got.Safe(), got.BackSafe(), c.safe, c.far, got.There, got.Back)
			}
			if !slices.ContainsFunc(append(got.There, got.Back...), func(f migration.Finding) bool {
				return strings.Contains(f.String(), c.want)
			}) && c.want != "" {
				t.Errorf("nothing says %q: %v %v", c.want, got.There, got.Back)
			}
		})
	}
}
