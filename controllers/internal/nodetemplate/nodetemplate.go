// Package nodetemplate makes a Node what a template asks for: labels,
// annotations and taints. What was applied is recorded on the Node in MCM's form,
// so that a later template, of either API, takes away what it does not have any more.
package nodetemplate

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// A Problem is a part of a template, class or Machine that cannot be applied to the Node or removed from it.
// Text has the field or annotation, and what to do.
type Problem struct {
	// Note is set when the record of what was applied is at fault, and not the
	// template. It is reported once: the record is rewritten.
	Note bool
	Text string
}

// Fields are the paths of a template's parts in the object that has it, for
// Problems.
type Fields struct{ Labels, Annotations, Taints string }

// Apply returns the Node with the template applied, and the problems found. It changes
// only what the template names or has named, and does not modify node. It is
// idempotent.
func Apply(node *corev1.Node, template *machinev1.NodeTemplateSpec, fields Fields) (*corev1.Node, []Problem) {
	want := node.DeepCopy()
	if want.Labels == nil {
		want.Labels = map[string]string{}
	}
	if want.Annotations == nil {
		want.Annotations = map[string]string{}
	}
	accepted, problems := valid(template, fields)
	last, known, broken := lastOf(node)
	replace(want.Labels, last.Labels, template.Labels, accepted.Labels)
	replace(want.Annotations, last.Annotations, template.Annotations, accepted.Annotations)
	want.Spec.Taints = taints(want.Spec.Taints, last.Spec.Taints, accepted.Spec.Taints)
	restoreRecords(want, node)
	if broken != "" {
		problems = append(problems, Problem{Note: true, Text: broken})
	}
	if !known || !Same(last, template) {
		recordApplied(want, template, broken != "")
	}
	return want, problems
}

// Same reports whether two templates have the same labels, annotations and taints.
func Same(a, b *machinev1.NodeTemplateSpec) bool {
	return equality.Semantic.DeepEqual(a.Labels, b.Labels) &&
		equality.Semantic.DeepEqual(a.Annotations, b.Annotations) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, sameTaint)
}

// Empty reports whether a template has no labels, annotations and taints.
func Empty(t *machinev1.NodeTemplateSpec) bool {
	return len(t.Labels) == 0 && len(t.Annotations) == 0 && len(t.Spec.Taints) == 0
}

// Unreadable is the text of a Problem with an annotation in which this manager
// records what it has applied; leftovers is what can no longer be told apart from others' entries.
func Unreadable(node *corev1.Node, annotation, leftovers string, err error) string {
	return "annotation " + annotation + " of node " + node.Name + " cannot be read (" + err.Error() +
		") and is written again; remove by hand from the node: " + leftovers
}

// replace removes what the last template had and the new one does not mention, and adds
// what is valid in the new one.
func replace(have, last, mentioned, wanted map[string]string) {
	for key := range last {
		if _, still := mentioned[key]; !still {
			delete(have, key)
		}
	}
	maps.Copy(have, wanted)
}

// recordKeys are the annotations that no template reaches.
func recordKeys() []string {
	return []string{machinev1.LastAppliedNodeTemplateAnnotation, machinev1.LastAppliedVirtualCapacityAnnotation}
}

// restoreRecords restores them, should the record list them as parts of a template.
func restoreRecords(want, node *corev1.Node) {
	for _, key := range recordKeys() {
		if value, ok := node.Annotations[key]; ok {
			want.Annotations[key] = value
		} else {
			delete(want.Annotations, key)
		}
	}
}

// lastOf returns what was applied last, and whether that is known. One that
// cannot be read counts as empty, and broken tells why.
func lastOf(node *corev1.Node) (last *machinev1.NodeTemplateSpec, known bool, broken string) {
	last = &machinev1.NodeTemplateSpec{}
	text, ok := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if !ok {
		return last, false, ""
	}
	if err := json.Unmarshal([]byte(text), last); err != nil {
		return &machinev1.NodeTemplateSpec{}, false, Unreadable(node, machinev1.LastAppliedNodeTemplateAnnotation,
			"labels, annotations and taints that are not in spec.nodeTemplate any more", err)
	}
	return last, true, ""
}

// recordApplied records the template as applied, in MCM's form: the JSON of the whole.
// An empty one needs no record unless it replaces one, or one that cannot be read.
func recordApplied(want *corev1.Node, template *machinev1.NodeTemplateSpec, always bool) {
	_, recorded := want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if !recorded && !always && Empty(template) {
		return
	}
	text, err := json.Marshal(template)
	if err != nil {
		return // a type that was read from JSON
	}
	want.Annotations[machinev1.LastAppliedNodeTemplateAnnotation] = string(text)
}

// taints returns the taints that a node shall have: those of the template as
// they are there, none that only the last template had, and all others as they
// are. A taint is known by key and effect. The order of what stays does not
// change; what is new comes last.
func taints(have, last, wanted []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		switch i, j := find(wanted, t), find(last, t); {
		case i >= 0 && sameTaint(t, wanted[i]):
			out = append(out, t) // with the time at which it was added
		case i >= 0:
			out = append(out, wanted[i])
		case j < 0:
			out = append(out, t)
		}
	}
	for _, t := range wanted {
		if find(out, t) < 0 {
			out = append(out, t)
		}
	}
	return out
}

// find returns the last taint of that key and effect, or -1.
func find(all []corev1.Taint, t corev1.Taint) int {
	for i := range slices.Backward(all) {
		if all[i].MatchTaint(&t) {
			return i
		}
	}
	return -1
}

// sameTaint compares all but the time at which a taint was added.
func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// valid returns the part of a template that the API server accepts on a Node,
// so that one wrong entry does not keep the others, and what is wrong with the rest.
func valid(template *machinev1.NodeTemplateSpec, fields Fields) (*machinev1.NodeTemplateSpec, []Problem) {
	out := &machinev1.NodeTemplateSpec{}
	var problems []Problem
	reject := func(field, entry string, errs []string) {
		problems = append(problems, Problem{Text: fmt.Sprintf(
			"%s: %q is not applied to the node: %s; correct it in the template", field, entry, strings.Join(errs, ", "))})
	}
	out.Labels = pick(template.Labels, wrongLabel, func(key string, errs []string) { reject(fields.Labels, key, errs) })
	out.Annotations = pick(template.Annotations, wrongAnnotation, func(key string, errs []string) {
		reject(fields.Annotations, key, errs)
	})
	for _, t := range template.Spec.Taints {
		if errs := wrongTaint(t); len(errs) > 0 {
			reject(fields.Taints, t.ToString(), errs)
			continue
		}
		if i := find(out.Spec.Taints, t); i >= 0 {
			out.Spec.Taints[i] = t // the last one counts, as with MCM
			continue
		}
		out.Spec.Taints = append(out.Spec.Taints, t)
	}
	return out, problems
}

// pick returns the entries that have no errors, and rejects the others in order.
func pick(entries map[string]string, check func(key, value string) []string,
	reject func(key string, errs []string),
) map[string]string {
	out := map[string]string{}
	for _, key := range slices.Sorted(maps.Keys(entries)) {
		if errs := check(key, entries[key]); len(errs) > 0 {
			reject(key, errs)
			continue
		}
		out[key] = entries[key]
	}
	return out
}

func wrongLabel(key, value string) []string {
	return append(validation.IsQualifiedName(key), validation.IsValidLabelValue(value)...)
}

func wrongAnnotation(key, _ string) []string {
	if slices.Contains(recordKeys(), key) {
		return []string{"the manager records there what it has applied"}
	}
	return validation.IsQualifiedName(strings.ToLower(key))
}

func wrongTaint(t corev1.Taint) []string {
	errs := validation.IsQualifiedName(t.Key)
	if t.Value != "" {
		errs = append(errs, validation.IsValidLabelValue(t.Value)...)
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, fmt.Sprintf("effect must be %s, %s or %s",
			corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute))
	}
	return errs
}

// ApplyMCMMachine is Apply for spec.nodeTemplate of an MCMMachine. What was applied
// is recorded in MCM's form, so that a Node that is migrated between the two APIs
// keeps nothing that no template asks for. Unlike Apply it records no empty
// template: most MCMMachines have none.
func ApplyMCMMachine(node *corev1.Node, template *infrav1.NodeTemplate) (*corev1.Node, []Problem) {
	t := &machinev1.NodeTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: template.Labels, Annotations: template.Annotations},
		Spec:       corev1.NodeSpec{Taints: template.CoreTaints()},
	}
	want, problems := Apply(node, t, Fields{
		Labels: "spec.nodeTemplate.labels", Annotations: "spec.nodeTemplate.annotations",
		Taints: "spec.nodeTemplate.taints",
	})
	if Empty(t) {
		delete(want.Annotations, machinev1.LastAppliedNodeTemplateAnnotation)
	}
	return want, problems
}

// Invalid joins the texts of the problems that are the template's own; empty if
// there are none.
func Invalid(problems []Problem) string {
	var texts []string
	for _, p := range problems {
		if !p.Note {
			texts = append(texts, p.Text)
		}
	}
	return strings.Join(texts, "; ")
}
