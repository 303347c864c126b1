package fields_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/equality"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration"
	"github.com/capmcm/cluster-api-provider-mcm/ops/migration/fields"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture/pools"
)

func TestThereAndBackIsTheSame(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 3)
	s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
	s.ClusterAPI = pools.Made(s.ClusterAPI)
	back, findings := fields.ToNative(s, migration.Options{To: migration.Native})
	for _, f := range findings {
		if f.Level == migration.Blocked || f.Level == migration.Lost {
			t.Errorf("finding %s", f)
		}
	}
	if !equality.Semantic.DeepEqual(s.Native.Deployment.Spec, back.Deployment.Spec) {
		t.Errorf("MachineDeployment: %s", cmp.Diff(s.Native.Deployment.Spec, back.Deployment.Spec, cmpopts.EquateEmpty()))
	}
	for i := range s.Native.Sets {
		if !equality.Semantic.DeepEqual(s.Native.Sets[i].Spec, back.Sets[i].Spec) {
			t.Errorf("MachineSet: %s", cmp.Diff(s.Native.Sets[i].Spec, back.Sets[i].Spec, cmpopts.EquateEmpty()))
		}
	}
	if diff := cmp.Diff(s.Native.Machines, back.Machines, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Machines: %s", diff)
	}
}

func TestFallbackClassesGoThereAndBack(t *testing.T) {
	t.Parallel()
	s := pools.NativePool("pool", 1)
	machinev1.SetAnnotation(s.Native.Deployment, machinev1.FallbackClassesAnnotation, "b, c")
	s.ClusterAPI, _ = fields.ToClusterAPI(s, pools.ToCluster())
	first := s.Native.Deployment.Spec.Template.Spec.Class.Name
	for _, template := range s.ClusterAPI.MachineTemplates {
		if got := strings.Join(template.Spec.Template.Spec.ClassNames(), " "); got != first+" b c" {
			t.Errorf("template %s has classes %s", template.Name, got)
		}
	}
	s.ClusterAPI = pools.Made(s.ClusterAPI)
	back, _ := fields.ToNative(s, migration.Options{To: migration.Native})
	if got := back.Deployment.Annotations[machinev1.FallbackClassesAnnotation]; got != "b,c" {
		t.Errorf("back, the MachineDeployment names %q", got)
	}
}
