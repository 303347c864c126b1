package node

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/test/fixture"
)

const (
	templateNote = machinev1.LastAppliedNodeTemplateAnnotation
	capacityNote = machinev1.LastAppliedVirtualCapacityAnnotation
)

func machine(options ...func(*machinev1.Machine)) *machinev1.Machine {
	return fixture.Machine("m", "c", append([]func(*machinev1.Machine){
		fixture.In[*machinev1.Machine]("ns"), fixture.Labels[*machinev1.Machine](machinev1.NodeLabel, "n"),
		func(m *machinev1.Machine) {
			m.CreationTimestamp, m.Finalizers = metav1.NewTime(epoch), []string{machinev1.Finalizer}
		},
	}, options...)...)
}

// node is one as a kubelet registers it.
func node(options ...func(*corev1.Node)) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid", CreationTimestamp: metav1.NewTime(epoch)},
		Status:     corev1.NodeStatus{Capacity: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")}},
	}
	for _, o := range options {
		o(n)
	}
	return n
}

// owned is what identifies a node as the machine's.
func owned(n *corev1.Node) {
	n.Finalizers = append(n.Finalizers, machinev1.NodeFinalizer)
	label("node.gardener.cloud/machine-name", "m")(n)
	note("machine.sapcloud.io/machine", "m")(n)
	note("machine.sapcloud.io/cluster-namespace", "ns")(n)
}

func label(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Labels == nil {
			n.Labels = map[string]string{}
		}
		n.Labels[key] = value
	}
}

func taint(key, value string, effect corev1.TaintEffect) corev1.Taint {
	return corev1.Taint{Key: key, Value: value, Effect: effect}
}

func tainted(taints ...corev1.Taint) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, taints...) }
}

func template(t machinev1.NodeTemplateSpec) func(*machinev1.Machine) {
	return func(m *machinev1.Machine) { m.Spec.NodeTemplateSpec = t }
}

func labels(kv ...string) machinev1.NodeTemplateSpec {
	t := machinev1.NodeTemplateSpec{}
	t.Labels = map[string]string{}
	for i := 0; i < len(kv); i += 2 {
		t.Labels[kv[i]] = kv[i+1]
	}
	return t
}

func virtual(kv ...string) *machinev1.MachineClass {
	c := &machinev1.MachineClass{
		ObjectMeta:   metav1.ObjectMeta{Namespace: "ns", Name: "c"},
		NodeTemplate: &machinev1.NodeTemplate{},
	}
	for i := 0; i < len(kv); i += 2 {
		if c.NodeTemplate.VirtualCapacity == nil {
			c.NodeTemplate.VirtualCapacity = corev1.ResourceList{}
		}
		c.NodeTemplate.VirtualCapacity[corev1.ResourceName(kv[i])] = resource.MustParse(kv[i+1])
	}
	return c
}

func holding(name, quantity string) func(*corev1.Node) {
	return func(n *corev1.Node) { n.Status.Capacity[corev1.ResourceName(name)] = resource.MustParse(quantity) }
}

func TestDesired(t *testing.T) {
	t.Parallel()
	added := new(metav1.NewTime(epoch))
	spare, gpu := taint("spare", "a", corev1.TaintEffectNoSchedule), taint("gpu", "", corev1.TaintEffectNoExecute)
	later := func(t corev1.Taint) corev1.Taint { t.TimeAdded = added; return t }
	withTaints := func(taints ...corev1.Taint) machinev1.NodeTemplateSpec {
		return machinev1.NodeTemplateSpec{Spec: corev1.NodeSpec{Taints: taints}}
	}
	annotated := machinev1.NodeTemplateSpec{}
	annotated.Annotations = map[string]string{"a": "1", machinev1.NotManagedAnnotation: "1"}

	cases := map[string]struct {
		reason  string
		node    *corev1.Node
		machine *machinev1.Machine
		class   *machinev1.MachineClass
		want    *corev1.Node
	}{
		"Fresh": {
			"A node that has just joined learns whose it is.",
			node(), machine(), nil, node(owned),
		},
		"InStep": {
			"A node that has everything is left alone.",
			node(owned), machine(), nil, node(owned),
		},
		"OtherFinalizers": {
			"The finalizers of others stay, in their order.",
			node(func(n *corev1.Node) { n.Finalizers = []string{"x/y"} }), machine(), nil,
			node(func(n *corev1.Node) { n.Finalizers = []string{"x/y"} }, owned),
		},
		"NotManaged": {
			"A node that has got a machine is managed again.",
			node(note(machinev1.NotManagedAnnotation, "1")), machine(), nil, node(owned),
		},
		"Labels": {
			"The template wins over what stands there, and is noted in MCM's form.",
			node(label("a", "old"), label("b", "user's")), machine(template(labels("a", "new"))), nil,
			node(label("a", "new"), label("b", "user's"), owned,
				note(templateNote, `{"metadata":{"labels":{"a":"new"}},"spec":{}}`)),
		},
		"LabelsAlreadyThere": {
			"Labels that the kubelet set are noted too, so that they can be taken away later.",
			node(owned, label("a", "x")), machine(template(labels("a", "x"))), nil,
			node(owned, label("a", "x"), note(templateNote, `{"metadata":{"labels":{"a":"x"}},"spec":{}}`)),
		},
		"NoteOfMCM": {
			"A note that MCM wrote is understood, and not rewritten for its form.",
			node(owned, label("a", "x"), note(templateNote,
				`{"metadata":{"creationTimestamp":null,"labels":{"a":"x"}},"spec":{}}`)),
			machine(template(labels("a", "x"))), nil,
			node(owned, label("a", "x"), note(templateNote,
				`{"metadata":{"creationTimestamp":null,"labels":{"a":"x"}},"spec":{}}`)),
		},
		"Removed": {
			"Only what the last template had is taken away.",
			node(owned, label("a", "x"), label("b", "y"), note("k", "v"), tainted(spare, gpu), note(templateNote,
				`{"metadata":{"creationTimestamp":null,"labels":{"a":"x"},"annotations":{"k":"v"}},`+
					`"spec":{"taints":[{"key":"spare","value":"a","effect":"NoSchedule"}]}}`)),
			machine(), nil,
			node(owned, label("b", "y"), tainted(gpu), note(templateNote, `{"metadata":{},"spec":{}}`)),
		},
		"Repaired": {
			"What somebody took away comes back.",
			node(owned, note(templateNote, `{"metadata":{"labels":{"a":"x"}},"spec":{}}`)), machine(template(labels("a", "x"))),
			nil,
			node(owned, label("a", "x"), note(templateNote, `{"metadata":{"labels":{"a":"x"}},"spec":{}}`)),
		},
		"Broken": {
			"A note that cannot be read counts as empty and is replaced.",
			node(owned, label("a", "x"), note(templateNote, `{{`)), machine(), nil,
			node(owned, label("a", "x"), note(templateNote, `{"metadata":{},"spec":{}}`)),
		},
		"Taints": {
			"A new taint comes last, one of the same key and effect gets the new value.",
			node(owned, tainted(taint("spare", "b", corev1.TaintEffectNoSchedule),
				taint("spare", "", corev1.TaintEffectNoExecute))),
			machine(template(withTaints(gpu, spare))), nil,
			node(owned, tainted(spare, taint("spare", "", corev1.TaintEffectNoExecute), gpu), note(templateNote,
				`{"metadata":{},"spec":{"taints":[{"key":"gpu","effect":"NoExecute"},{"key":"spare","value":"a",`+
					`"effect":"NoSchedule"}]}}`)),
		},
		"TimeAdded": {
			"When a taint was added makes no difference, so that it is not written again and again.",
			node(owned, tainted(spare), note(templateNote,
				`{"metadata":{},"spec":{"taints":[{"key":"spare","value":"a","effect":"NoSchedule"}]}}`)),
			machine(template(withTaints(later(spare)))), nil,
			node(owned, tainted(spare), note(templateNote,
				`{"metadata":{},"spec":{"taints":[{"key":"spare","value":"a","effect":"NoSchedule"}]}}`)),
		},
		"TwiceTheSameTaint": {
			"The API server refuses a list that has a taint twice; the last one counts.",
			node(owned), machine(template(withTaints(taint("spare", "z", corev1.TaintEffectNoSchedule), spare))), nil,
			node(owned, tainted(spare), note(templateNote,
				`{"metadata":{},"spec":{"taints":[{"key":"spare","value":"z","effect":"NoSchedule"},{"key":"spare",`+
					`"value":"a","effect":"NoSchedule"}]}}`)),
		},
		"OurOwnKeys": {
			"A template cannot forge what we write ourselves.",
			node(owned), machine(template(annotated)), nil,
			node(owned, note("a", "1"), note(templateNote, mustJSON(annotated))),
		},
		"Capacity": {
			"Virtual capacity appears on the node.",
			node(owned), machine(), virtual("x.com/dongle", "4"),
			node(owned, holding("x.com/dongle", "4"), note(capacityNote, `{"x.com/dongle":"4"}`)),
		},
		"CapacityInStep": {
			"Equal quantities are equal however they are spelled.",
			node(owned, holding("x.com/dongle", "2k"), note(capacityNote, `{"x.com/dongle":"2000"}`)), machine(),
			virtual("x.com/dongle", "2000"),
			node(owned, holding("x.com/dongle", "2k"), note(capacityNote, `{"x.com/dongle":"2000"}`)),
		},
		"CapacityRemoved": {
			"What the class has no more is taken away, and nothing else.",
			node(owned, holding("x.com/dongle", "4"), holding("y.com/gpu", "1"), note(capacityNote, `{"x.com/dongle":"4"}`)),
			machine(), virtual(),
			node(owned, holding("y.com/gpu", "1")),
		},
		"CapacityNoTemplate": {
			"A class without node template has no virtual capacity.",
			node(owned, holding("x.com/dongle", "4"), note(capacityNote, `{"x.com/dongle":"4"}`)), machine(),
			&machinev1.MachineClass{}, node(owned),
		},
		"CapacityNoClass": {
			"A class that cannot be seen takes nothing away.",
			node(owned, holding("x.com/dongle", "4"), note(capacityNote, `{"x.com/dongle":"4"}`)), machine(), nil,
			node(owned, holding("x.com/dongle", "4"), note(capacityNote, `{"x.com/dongle":"4"}`)),
		},
		"CapacityBroken": {
			"A broken note is replaced.",
			node(owned, holding("x.com/dongle", "4"), note(capacityNote, `[]`)), machine(), virtual("x.com/dongle", "5"),
			node(owned, holding("x.com/dongle", "5"), note(capacityNote, `{"x.com/dongle":"5"}`)),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := tc.node.DeepCopy()
			got, _ := desired(tc.node, tc.machine, tc.class)
			if !equality.Semantic.DeepEqual(tc.want, got) {
				t.Errorf("%s\n%s", tc.reason, cmp.Diff(tc.want, got))
			}
			if !equality.Semantic.DeepEqual(before, tc.node) {
				t.Error("the node that was read has been changed")
			}
			again, problems := desired(got, tc.machine, tc.class)
			if !equality.Semantic.DeepEqual(got, again) {
				t.Errorf("a second pass changes the node again: %s", cmp.Diff(got, again))
			}
			if len(problems) > 0 {
				t.Errorf("problems %v on a node that has just been corrected", problems)
			}
		})
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	wrong := machinev1.NodeTemplateSpec{Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "t", Effect: "Never"}}}}
	wrong.Annotations = map[string]string{"a b": ""}
	forged := machinev1.NodeTemplateSpec{}
	forged.Annotations = map[string]string{templateNote: "mine", capacityNote: "mine"}
	cases := map[string]struct {
		reason  string
		node    *corev1.Node
		machine *machinev1.Machine
		class   *machinev1.MachineClass
		want    []string
	}{
		"Template": {
			"Each wrong entry is named.", node(), machine(template(wrong)), nil,
			[]string{`spec.nodeTemplate.metadata.annotations: "a b"`, `spec.nodeTemplate.spec.taints: "t:Never"`},
		},
		"Label": {
			"A label value of 64 characters is refused.", node(),
			machine(template(labels("a", strings.Repeat("x", 64)))), nil,
			[]string{`spec.nodeTemplate.metadata.labels: "a"`},
		},
		"Forged": {
			"What is noted on the node is nobody's to write.", node(), machine(template(forged)), nil,
			[]string{templateNote, capacityNote},
		},
		"LongName": {"A name may be longer than a label value.", node(), machine(func(m *machinev1.Machine) {
			m.Name = strings.Repeat("x", 253)
		}), nil, []string{"metadata.name"}},
		"Note": {
			"The annotation and what to do are named.", node(note(templateNote, "{{")), machine(), nil,
			[]string{templateNote},
		},
		"CPU": {
			"The kubelet's own resources cannot be had.", node(), machine(), virtual("cpu", "4"),
			[]string{`nodeTemplate.virtualCapacity: "cpu"`},
		},
		"Quantities": {
			"Half a dongle is none, and neither is a negative one.", node(), machine(),
			virtual("x.com/half", "500m", "x.com/minus", "-1"),
			[]string{"x.com/half", "x.com/minus"},
		},
		"Resource": {"A resource must have a name.", node(), machine(), virtual("a/b/c", "1"), []string{"a/b/c"}},
		"VirtualNote": {
			"The note of the capacity is named, too.", node(note(capacityNote, `{"x.com/a":"many"}`)), machine(), virtual(),
			[]string{capacityNote},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := desired(tc.node, tc.machine, tc.class)
			if len(problems) != len(tc.want) {
				t.Fatalf("problems %v, want %d: %s", problems, len(tc.want), tc.reason)
			}
			for i, want := range tc.want {
				if !strings.Contains(problems[i].Text, want) {
					t.Errorf("problem %q, want %q in it: %s", problems[i].Text, want, tc.reason)
				}
			}
			if _, held := got.Annotations[machinev1.NodeMachineAnnotation]; !held || got.Finalizers == nil {
				t.Errorf("one wrong entry keeps the rest from the node: %s", tc.reason)
			}
		})
	}
}

func FuzzDesired(f *testing.F) {
	f.Add(`{"metadata":{"labels":{"a":"x"}},"spec":{"taints":[{}]}}`, `{"x.com/a":"1"}`, "a", "x")
	f.Add(`null`, `null`, "", "")
	f.Fuzz(func(t *testing.T, last, lastVirtual, key, value string) {
		m := machine(template(labels(key, value)))
		n := node(note(templateNote, last), note(capacityNote, lastVirtual))
		got, _ := desired(n, m, virtual("x.com/b", "1"))
		if again, _ := desired(got, m, virtual("x.com/b", "1")); !equality.Semantic.DeepEqual(got, again) {
			t.Errorf("a second pass changes the node again: %s", cmp.Diff(got, again))
		}
	})
}

// note is an annotation.
func note(key, value string) func(*corev1.Node) {
	return func(n *corev1.Node) {
		if n.Annotations == nil {
			n.Annotations = map[string]string{}
		}
		n.Annotations[key] = value
	}
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(text)
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
