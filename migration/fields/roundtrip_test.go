package fields_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/capmcm/cluster-api-provider-mcm/migration"
	"github.com/capmcm/cluster-api-provider-mcm/migration/fields"
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
	if !apiequality.Semantic.DeepEqual(s.Native.Deployment.Spec, back.Deployment.Spec) {
		t.Errorf("MachineDeployment: %s", cmp.Diff(s.Native.Deployment.Spec, back.Deployment.Spec, cmpopts.EquateEmpty()))
	}
	for i := range s.Native.Sets {
		if !apiequality.Semantic.DeepEqual(s.Native.Sets[i].Spec, back.Sets[i].Spec) {
			t.Errorf("MachineSet: %s", cmp.Diff(s.Native.Sets[i].Spec, back.Sets[i].Spec, cmpopts.EquateEmpty()))
		}
	}
	if diff := cmp.Diff(s.Native.Machines, back.Machines, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("Machines: %s", diff)
	}
}
