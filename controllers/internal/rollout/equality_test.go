package rollout

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

func template() *machinev1.MachineTemplateSpec {
	return &machinev1.MachineTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"pool": "a"}},
		Spec:       machinev1.MachineSpec{Class: machinev1.ClassSpec{Kind: "MachineClass", Name: "small"}},
	}
}

func TestSameTemplate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		change func(*machinev1.MachineTemplateSpec)
		want   bool
	}{
		"Equal": {"Nothing changed.", func(*machinev1.MachineTemplateSpec) {}, true},
		"Hash": {"The hash is not the user's.", func(s *machinev1.MachineTemplateSpec) {
			s.Labels[machinev1.TemplateHashLabel] = "1"
		}, true},
		"Label":       {"A label rolls.", func(s *machinev1.MachineTemplateSpec) { s.Labels["pool"] = "b" }, false},
		"MoreLabels":  {"A label more rolls.", func(s *machinev1.MachineTemplateSpec) { s.Labels["zone"] = "1" }, false},
		"FewerLabels": {"A label less rolls.", func(s *machinev1.MachineTemplateSpec) { s.Labels = nil }, false},
		"Annotation": {"An annotation rolls.", func(s *machinev1.MachineTemplateSpec) {
			s.Annotations = map[string]string{"a": "b"}
		}, false},
		"NoAnnotations": {"None is none, however it is written.", func(s *machinev1.MachineTemplateSpec) {
			s.Annotations = map[string]string{}
		}, true},
		"ClassName": {"Another class rolls.", func(s *machinev1.MachineTemplateSpec) {
			s.Spec.Class.Name = "large"
		}, false},
		"ClassGroup": {"Another group rolls.", func(s *machinev1.MachineTemplateSpec) {
			s.Spec.Class.APIGroup = "machine.sapcloud.io"
		}, false},
		"ClassKind": {"The kind is changed in place.", func(s *machinev1.MachineTemplateSpec) {
			s.Spec.Class.Kind = "AWSMachineClass"
		}, true},
		"ProviderID": {"A providerID rolls.", func(s *machinev1.MachineTemplateSpec) { s.Spec.ProviderID = "x" }, false},
		"NodeTemplate": {"Nodes are changed in place.", func(s *machinev1.MachineTemplateSpec) {
			s.Spec.NodeTemplateSpec.Labels = map[string]string{"a": "b"}
			s.Spec.NodeTemplateSpec.Spec.Taints = []corev1.Taint{{Key: "a"}}
		}, true},
		"Configuration": {"Timeouts are changed in place.", func(s *machinev1.MachineTemplateSpec) {
			s.Spec.MachineConfiguration = &machinev1.MachineConfiguration{MaxEvictRetries: new(int32(3))}
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changed := template()
			tc.change(changed)
			if got := machinev1.SameTemplate(template(), changed); got != tc.want {
				t.Errorf("%s\ngot %t", tc.reason, got)
			}
			if got := machinev1.SameTemplate(changed, template()); got != tc.want {
				t.Errorf("%s\nthe other way round: got %t", tc.reason, got)
			}
		})
	}
}

func TestCurrent(t *testing.T) {
	t.Parallel()
	set := func(name string, created int, class string) *machinev1.MachineSet {
		s := &machinev1.MachineSet{ObjectMeta: metav1.ObjectMeta{
			Name:              name,
			CreationTimestamp: metav1.Unix(int64(created), 0),
		}}
		s.Spec.Template = *template()
		s.Spec.Template.Spec.Class.Name = class
		return s
	}
	deleting := set("d", 0, "small")
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	for name, tc := range map[string]struct {
		reason string
		sets   []*machinev1.MachineSet
		want   string
	}{
		"None": {"No set has the template.", []*machinev1.MachineSet{set("a", 1, "large")}, ""},
		"Oldest": {"Of several the oldest is it.", []*machinev1.MachineSet{
			set("b", 2, "small"), set("a", 1, "small"),
			set("c", 3, "small"),
		}, "a"},
		"ByName":   {"Equal ages go by name.", []*machinev1.MachineSet{set("b", 1, "small"), set("a", 1, "small")}, "a"},
		"Deleting": {"A set that goes makes no machines.", []*machinev1.MachineSet{deleting, set("b", 2, "small")}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if s := FindNewSet(template(), tc.sets); s != nil {
				got = s.Name
			}
			if got != tc.want {
				t.Errorf("%s\ngot %q, want %q", tc.reason, got, tc.want)
			}
		})
	}
}
