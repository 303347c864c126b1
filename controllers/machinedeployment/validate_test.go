package machinedeployment

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// TestBadInput shows each mistake to the controller: it says which field is
// wrong, makes nothing, and goes on as soon as the field is corrected.
func TestBadInput(t *testing.T) {
	t.Parallel()
	type mistake = func(*machinev1.MachineDeployment)
	for name, tc := range map[string]struct {
		spoil mistake
		field string
		event string
	}{
		"NilSelector": {func(d *machinev1.MachineDeployment) { d.Spec.Selector = nil }, "spec.selector is missing", ""},
		"EmptySelector": {func(d *machinev1.MachineDeployment) {
			d.Spec.Selector = &metav1.LabelSelector{}
		}, "spec.selector is empty", machinev1.EventSelectingAll},
		"BadSelector": {func(d *machinev1.MachineDeployment) {
			d.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Near"}}
		}, "spec.selector is invalid", ""},
		"SelectorOfOthers": {func(d *machinev1.MachineDeployment) {
			d.Spec.Selector.MatchLabels["pool"] = "b"
		}, "spec.template.metadata.labels", ""},
		"Replicas":   {func(d *machinev1.MachineDeployment) { d.Spec.Replicas = -1 }, "spec.replicas is -1", ""},
		"NoStrategy": {func(d *machinev1.MachineDeployment) { d.Spec.Strategy.Type = "" }, "spec.strategy.type", ""},
		"UnknownStrategy": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.Type = "Slowly"
		}, `spec.strategy.type is "Slowly"`, ""},
		"NoRolling": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.RollingUpdate = nil
		}, "spec.strategy.rollingUpdate is missing", ""},
		"NoBounds": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.RollingUpdate = &machinev1.RollingUpdateMachineDeployment{}
		}, "spec.strategy.rollingUpdate.maxUnavailable is missing", ""},
		"UnparsableSurge": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy.RollingUpdate.MaxSurge = new(intstr.FromString("many"))
		}, `spec.strategy.rollingUpdate.maxSurge "many"`, ""},
		"NoInPlace": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy = machinev1.MachineDeploymentStrategy{Type: "InPlaceUpdate"}
		}, "spec.strategy.inPlaceUpdate is missing", ""},
		"UnknownOrchestrate": {func(d *machinev1.MachineDeployment) {
			d.Spec.Strategy = inPlaceUpdate("Sometimes", 1, 1)
		}, `orchestrationType is "Sometimes"`, ""},
		"NoClass": {func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.Class = machinev1.ClassSpec{}
		}, "spec.template.spec.class.name is missing", ""},
		"NoKind": {func(d *machinev1.MachineDeployment) {
			d.Spec.Template.Spec.Class.Kind = ""
		}, "spec.template.spec.class.kind is missing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(1))
			env.changeSpec(tc.spoil)
			env.pass()
			env.pass()
			c := specValidCondition(&env.deployment().Status)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, tc.field) {
				t.Fatalf("condition %+v does not name %s", c, tc.field)
			}
			event := tc.event
			if event == "" {
				event = machinev1.ReasonInvalidSpec
			}
			if events := env.HeardOf("Warning " + event + " "); len(events) == 0 ||
				!strings.Contains(strings.Join(events, "; "), tc.field) {
				t.Errorf("events %v do not name %s", events, tc.field)
			}
			if len(env.sets()) != 0 || len(env.deployment().Status.Conditions) != 0 {
				t.Errorf("an invalid deployment was acted upon\n%s", env.describe())
			}
			env.changeSpec(func(d *machinev1.MachineDeployment) { d.Spec = deployment(1).Spec })
			env.pass()
			if c := specValidCondition(&env.deployment().Status); c != nil || len(env.sets()) != 1 {
				t.Errorf("corrected, but condition %+v\n%s", c, env.describe())
			}
		})
	}
}

// TestBadAnnotations are reported and hold nothing up.
func TestBadAnnotations(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		machinev1.LastReplicaChangeByScalerAnnotation, machinev1.EffectiveCreationTimeoutAnnotation,
		machinev1.ProviderIDFormAnnotation,
	} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			env := newEnv(t, deployment(1, func(d *machinev1.MachineDeployment) {
				machinev1.SetAnnotation(d, key,
					strings.Repeat("ü", 200))
			}))
			env.run()
			if c := specValidCondition(&env.deployment().Status); c == nil || !strings.Contains(c.Message, key) {
				t.Errorf("condition %+v", c)
			}
			if events := env.HeardOf(key); len(events) != 1 {
				t.Errorf("one Event is enough: %v", events)
			}
		})
	}
}

func TestLongName(t *testing.T) {
	t.Parallel()
	for length, valid := range map[int]bool{1: true, 64: true, maxNameLength: true, 253: false} {
		d := deployment(1, func(d *machinev1.MachineDeployment) { d.Name = strings.Repeat("x", length) })
		if found := problemsOf(d, true); (len(found) == 0) != valid {
			t.Errorf("name of %d characters: %v", length, found)
		}
	}
}
