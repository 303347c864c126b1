package nodetemplate

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

var paths = Fields{Labels: "x.labels", Annotations: "x.annotations", Taints: "x.taints"}

func noted(text string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "n", Annotations: map[string]string{machinev1.LastAppliedNodeTemplateAnnotation: text},
	}}
}

// What a template makes of a Node is tested through the native API's
// controller; here is what both APIs rely on besides.
func TestApplyTellsWhere(t *testing.T) {
	t.Parallel()
	template := &machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{
			Labels:      map[string]string{"a b": "1"},
			Annotations: map[string]string{machinev1.LastAppliedNodeTemplateAnnotation: "forged"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "t", Effect: "Never"}}},
	}
	before := noted("{{")
	node := before.DeepCopy()
	want, problems := Apply(node, template, paths)
	var got []string
	for _, p := range problems {
		got = append(got, p.Text)
	}
	if diff := cmp.Diff([]string{
		`x.labels: "a b" is not applied to the node: name part must consist of alphanumeric characters, '-', '_' or ` +
			`'.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', ` +
			`regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]'); correct it in the template`,
		`x.annotations: "node.machine.sapcloud.io/last-applied-anno-labels-taints" is not applied to the node: the ` +
			`manager records there what it has applied; correct it in the template`,
		`x.taints: "t:Never" is not applied to the node: effect must be NoSchedule, PreferNoSchedule or NoExecute; ` +
			`correct it in the template`,
		`annotation node.machine.sapcloud.io/last-applied-anno-labels-taints of node n cannot be read (invalid ` +
			`character '{' looking for beginning of object key string) and is written again; remove by hand from the ` +
			`node: labels, annotations and taints that are not in spec.nodeTemplate any more`,
	}, got); diff != "" {
		t.Errorf("problems (-want +got)\n%s", diff)
	}
	if len(problems) != 4 || problems[0].Note || !problems[3].Note {
		t.Errorf("the template is at fault first, then the note: %+v", problems)
	}
	if len(want.Labels) != 0 || len(want.Spec.Taints) != 0 || !equality.Semantic.DeepEqual(before, node) {
		t.Errorf("got %+v, and the node that was read is %+v", want, node)
	}
}

// A Node may go from one API to the other: each must understand what the other
// has noted, and MCM what both have.
func TestNotesOfOthers(t *testing.T) {
	t.Parallel()
	cases := map[string]struct{ reason, note string }{
		"ours": {"The form that is written here.", `{"metadata":{"labels":{"gone":"1"}},"spec":{}}`},
		"MCM's": {
			"MCM's has a time that is no time.",
			`{"metadata":{"creationTimestamp":null,"labels":{"gone":"1"}},"spec":{}}`,
		},
		"short": {"Earlier versions of MCMMachines left empty parts out.", `{"metadata":{"labels":{"gone":"1"}}}`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := noted(tc.note)
			node.Labels = map[string]string{"gone": "1", "theirs": "1"}
			template := &machinev1.NodeTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"new": "1"}}}
			want, problems := Apply(node, template, paths)
			if diff := cmp.Diff(map[string]string{"new": "1", "theirs": "1"}, want.Labels); diff != "" || len(problems) > 0 {
				t.Errorf("%s; problems %v (-want +got)\n%s", tc.reason, problems, diff)
			}
			if again, _ := Apply(want, template, paths); !equality.Semantic.DeepEqual(want, again) {
				t.Errorf("a second pass changes the node again\n%s", cmp.Diff(want, again))
			}
		})
	}
}
