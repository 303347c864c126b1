package machineset

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func TestBadInput(t *testing.T) {
	t.Parallel()
	annotate := func(key, value string) func(*machinev1.MachineSet) {
		return func(set *machinev1.MachineSet) { set.Annotations = map[string]string{key: value} }
	}
	cases := map[string]struct {
		reason  string
		spoil   func(*machinev1.MachineSet)
		field   string
		ignored bool
	}{
		"NoSelector": {reason: "MCM crashes on it.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Selector = nil
		}, field: "spec.selector"},
		"EmptySelector": {reason: "It would take every Machine.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Selector = &metav1.LabelSelector{}
		}, field: "spec.selector"},
		"BadSelector": {reason: "It cannot be evaluated.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Like"}}
		}, field: "spec.selector"},
		"OtherLabels": {reason: "Machines would be made without end.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Labels = map[string]string{"pool": "b"}
		}, field: "spec.template.metadata.labels"},
		"Expression": {reason: "Expressions count as well.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{
				Key:      "zone",
				Operator: metav1.LabelSelectorOpExists,
			}}
		}, field: "spec.template.metadata.labels"},
		"NoLabels": {reason: "A machine without labels belongs to nobody.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Labels = nil
			set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{
				Key:      "zone",
				Operator: metav1.LabelSelectorOpDoesNotExist,
			}}}
		}, field: "spec.template.metadata.labels"},
		"BadLabel": {reason: "The API server would refuse every machine.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Labels["x"] = "not a label!"
		}, field: "spec.template.metadata.labels"},
		"BadAnnotation": {reason: "The API server would refuse every machine.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Annotations = map[string]string{"a b": ""}
		}, field: "spec.template.metadata.annotations"},
		"BadFinalizer": {reason: "The API server would refuse every machine.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Finalizers = []string{"a b"}
		}, field: "spec.template.metadata.finalizers"},
		"Negative": {reason: "There is no negative number of machines.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Replicas = -1
		}, field: "spec.replicas"},
		"NoKind": {reason: "MCM rejects it.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Spec.Class.Kind = ""
		}, field: "spec.template.spec.class.kind"},
		"NoName": {reason: "MCM rejects it.", spoil: func(set *machinev1.MachineSet) {
			set.Spec.Template.Spec.Class.Name = ""
		}, field: "spec.template.spec.class.name"},
		"CreationTimeout": {
			reason: "The template's timeout applies instead.",
			spoil:  annotate(machinev1.EffectiveCreationTimeoutAnnotation, "soon"),
			field:  machinev1.EffectiveCreationTimeoutAnnotation, ignored: true,
		},
		"ScalerTime": {
			reason: "No marked machine is due.",
			spoil:  annotate(machinev1.LastReplicaChangeByScalerAnnotation, "soon"),
			field:  machinev1.LastReplicaChangeByScalerAnnotation, ignored: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			env := newEnv(t, newSet(2, tc.spoil), newMember("a"))
			env.settle()
			env.settle()
			set := env.set()
			c := meta.FindStatusCondition(set.Status.Progress.Conditions, machinev1.ConditionSpecValid)
			if c == nil || c.Status != metav1.ConditionFalse || !strings.Contains(c.Message, tc.field) {
				t.Errorf("%s condition: %+v", tc.reason, c)
			}
			all, count := env.told(machinev1.ReasonInvalidSpec)
			if count != 1 || !strings.Contains(all[0], tc.field) {
				t.Errorf("%s one Event names %s, got %q", tc.reason, tc.field, all)
			}
			if acted := len(env.machines()) == 2; acted != tc.ignored {
				t.Errorf("%s got %d machines", tc.reason, len(env.machines()))
			}
			good := newSet(2)
			env.edit(func(set *machinev1.MachineSet) { set.Spec, set.Annotations = good.Spec, nil })
			env.settle()
			if len(env.machines()) != 2 {
				t.Errorf("%s after correction got %d machines, want 2", tc.reason, len(env.machines()))
			}
			if meta.FindStatusCondition(env.set().Status.Progress.Conditions, machinev1.ConditionSpecValid) != nil {
				t.Errorf("%s the condition is left after correction", tc.reason)
			}
		})
	}
}
