package migration

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

func TestThereAndBackIsTheSame(t *testing.T) {
	t.Parallel()
	s := nativePool("pool", 3)
	s.ClusterAPI, _ = s.CopyToClusterAPI(toCluster())
	s.ClusterAPI = made(s.ClusterAPI)
	back, findings := s.CopyToNative(Options{To: DoorNative})
	for _, f := range findings {
		if f.Level == Blocked || f.Level == Lost {
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
