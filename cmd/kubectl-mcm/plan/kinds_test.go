package plan

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

func falseCondition(kind, reason string) metav1.Condition {
	return metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "none left"}
}

// TestKinds: what each kind does is decided by the rule of its API.
func TestKinds(t *testing.T) {
	t.Parallel()
	native, capi := nativePool(), clusterAPIPool()
	blue := capi[0].(*clusterv1.MachineDeployment)
	for reason, tc := range map[string]struct {
		file func(t *testing.T) string
		code int
		want []string
	}{
		"an edit of a class rolls nothing": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "class", native[2].(*machinev1.MachineClass), func(c *machinev1.MachineClass) {
				fixture.ProviderSpec(map[string]any{"instanceType": "large"})(c)
			})
		}, 0, []string{
			"MachineClass/small   Metadata", "used by MachineDeployment/workers",
			"3 machines of it keep what they were made with",
		}},
		"a set of a pool": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "set", native[1].(*machinev1.MachineSet), func(s *machinev1.MachineSet) { s.Spec.Replicas = 4 })
		}, 0, []string{"1 created", "MachineDeployment workers controls the set"}},
		"a new machine": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "machine", fixture.Machine("alone", "small", fixture.In[*machinev1.Machine](garden)),
				func(*machinev1.Machine) {})
		}, 0, []string{"Machine/alone   Scale", "1 created"}},
		"another class of a machine": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "machine", native[3].(*machinev1.Machine), func(m *machinev1.Machine) { m.Spec.Class.Name = "x" })
		}, 0, []string{"Metadata", "a Machine that has its VM keeps it"}},
		"another template on Cluster API": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "md", blue, func(d *clusterv1.MachineDeployment) {
				d.Spec.Template.Spec.InfrastructureRef.Name = "blue-v2"
			})
		}, exitMoves, []string{
			"Replace   2 replaced", "blue-v2 required", "a runtime extension for updates in place may keep the VMs", "unknown",
		}},
		"a template that there is not": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "md", blue, func(d *clusterv1.MachineDeployment) {
				d.Spec.Template.Spec.InfrastructureRef.Name = "blue-v3"
			})
		}, exitBlocked, []string{"MCMMachineTemplate blue-v3: does not exist"}},
		"labels on Cluster API are propagated in place": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "md", blue, func(d *clusterv1.MachineDeployment) { d.Spec.Template.Labels["team"] = "a" })
		}, 0, []string{"MachineDeployment/blue   Metadata"}},
		"fewer machines on Cluster API": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "md", blue, func(d *clusterv1.MachineDeployment) { d.Spec.Replicas = new(int32(1)) })
		}, exitMoves, []string{"1 deleted", "decided by Cluster API's deletion order"}},
		"OnDelete waits for a person": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "md", blue, func(d *clusterv1.MachineDeployment) {
				d.Spec.Template.Spec.InfrastructureRef.Name = "blue-v2"
				d.Spec.Rollout.Strategy.Type = clusterv1.OnDeleteMachineDeploymentStrategyType
			})
		}, 0, []string{"Metadata", "strategy OnDelete"}},
		"a template of Cluster API": {func(t *testing.T) string {
			t.Helper()
			return edited(t, "template", capi[3].(*infrav1.MCMMachineTemplate), func(m *infrav1.MCMMachineTemplate) {
				m.Labels = map[string]string{"team": "a"}
			})
		}, 0, []string{"MCMMachineTemplate/blue-v1   Metadata", "used by MachineDeployment/blue"}},
	} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			text, code := run(t, server(t, nil, append(nativePool(), clusterAPIPool()...)...), "plan", "-f", tc.file(t))
			if code != tc.code {
				t.Errorf("exit code %d, want %d", code, tc.code)
			}
			for _, want := range tc.want {
				if !strings.Contains(text, want) {
					t.Errorf("it does not say %q:\n%s", want, text)
				}
			}
		})
	}
}
