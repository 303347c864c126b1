package rollout

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
)

// TestMigrationRollsNothing: what a pool is after a move to Cluster API and back is
// for the deployment's controller what it was before.
func TestMigrationRollsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*machinev1.MachineTemplateSpec){
		"as it is":    func(*machinev1.MachineTemplateSpec) {},
		"annotations": func(t *machinev1.MachineTemplateSpec) { t.Annotations = map[string]string{"a": "b"} },
		"a finalizer": func(t *machinev1.MachineTemplateSpec) { t.Finalizers = []string{"a/b"} },
		"no group":    func(t *machinev1.MachineTemplateSpec) { t.Spec.Class.APIGroup = "" },
		"a node template": func(t *machinev1.MachineTemplateSpec) {
			t.Spec.NodeTemplateSpec.Labels = map[string]string{"c": "d"}
		},
		"eviction retries": func(t *machinev1.MachineTemplateSpec) {
			t.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(2))}
		},
	} {
		template := machinev1.MachineTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "p"}},
			Spec: machinev1.MachineSpec{Class: machinev1.ClassSpec{
				APIGroup: "machine.sapcloud.io", Kind: "MachineClass",
				Name: "c",
			}},
		}
		change(&template)
		d := &machinev1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "n", UID: types.UID("d")}}
		d.Spec.Template, d.Spec.Selector = template, &metav1.LabelSelector{MatchLabels: map[string]string{"pool": "p"}}
		set := machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Name: "p-x", Namespace: "n", UID: types.UID("s"),
			Labels: map[string]string{"pool": "p", "machine-template-hash": "1"},
		}}
		set.Spec.Template = *template.DeepCopy()
		set.Spec.Template.Labels["machine-template-hash"] = "1"
		s := &migration.PoolState{Pool: migration.Pool{Kind: migration.KindDeployment, Namespace: "n", Name: "p"}}
		s.Native = migration.NativeObjects{Deployment: d, Sets: []machinev1.MachineSet{set}}
		s.ClusterAPI, _ = fields.ToClusterAPI(s, migration.Options{To: migration.ClusterAPI, Cluster: "k"})
		back, _ := fields.ToNative(s, migration.Options{To: migration.Native})
		if !machinev1.SameTemplate(&back.Deployment.Spec.Template, &template) ||
			FindNewSet(&back.Deployment.Spec.Template, []*machinev1.MachineSet{&back.Sets[0]}) == nil {
			t.Errorf("%s: the deployment's controller would roll from %+v to %+v", name, template, back.Deployment.Spec.Template)
		}
		if len(back.Sets) != 1 || back.Sets[0].Name != "p-x" {
			t.Errorf("%s: %d sets", name, len(back.Sets))
		}
	}
}
