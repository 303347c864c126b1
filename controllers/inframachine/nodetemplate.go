package inframachine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation"

	infrav1 "github.com/capmcm/cluster-api-provider-mcm/api/infrastructure/v1alpha1"
	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// noted is what is written down on a Node as applied. It is the native door's
// form, so that a Node that changes doors keeps nothing that nobody asks for.
type noted struct {
	Metadata struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"metadata,omitzero"`
	Spec struct {
		Taints []corev1.Taint `json:"taints,omitempty"`
	} `json:"spec,omitzero"`
}

func empty(t *infrav1.NodeTemplate) bool {
	return len(t.Labels) == 0 && len(t.Annotations) == 0 && len(t.Taints) == 0
}

// desired returns the Node as the template wants it, and what of that cannot be
// had. It touches nothing that the template does not name and has not named.
func desired(node *corev1.Node, template *infrav1.NodeTemplate) (*corev1.Node, []string) {
	want := node.DeepCopy()
	var last noted
	text, known := node.Annotations[machinev1.LastAppliedNodeTemplateAnnotation]
	if known && json.Unmarshal([]byte(text), &last) != nil {
		last = noted{} // it is written anew
	}
	if empty(template) && !known {
		return want, nil
	}
	valid, problems := validOf(template)
	want.Labels = replace(want.Labels, last.Metadata.Labels, template.Labels, valid.Labels)
	want.Annotations = replace(want.Annotations, last.Metadata.Annotations, template.Annotations, valid.Annotations)
	want.Spec.Taints = taints(want.Spec.Taints, last.Spec.Taints, valid.Taints)
	var now noted
	now.Metadata.Labels, now.Metadata.Annotations, now.Spec.Taints = template.Labels, template.Annotations, template.Taints
	if empty(template) {
		delete(want.Annotations, machinev1.LastAppliedNodeTemplateAnnotation)
	} else if encoded, err := json.Marshal(now); err == nil {
		want.Annotations = replace(want.Annotations, nil, nil, map[string]string{machinev1.LastAppliedNodeTemplateAnnotation: string(encoded)})
	}
	if equality.Semantic.DeepEqual(want, node) {
		return node, problems
	}
	return want, problems
}

// replace takes away what was applied last and is not mentioned any more, and
// puts in what is wanted.
func replace(have, last, mentioned, wanted map[string]string) map[string]string {
	for key := range last {
		if _, still := mentioned[key]; !still {
			delete(have, key)
		}
	}
	if have == nil && len(wanted) > 0 {
		have = map[string]string{}
	}
	maps.Copy(have, wanted)
	return have
}

// taints returns the taints that a node shall have, known by key and effect:
// those of the template, none that only the last template had, and all others.
func taints(have, last, wanted []corev1.Taint) []corev1.Taint {
	var out []corev1.Taint
	for _, t := range have {
		switch i, j := find(wanted, t), find(last, t); {
		case i >= 0 && !sameTaint(t, wanted[i]):
			out = append(out, wanted[i])
		case i >= 0, j < 0:
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

func find(all []corev1.Taint, t corev1.Taint) int {
	return slices.IndexFunc(all, func(o corev1.Taint) bool { return o.MatchTaint(&t) })
}

// sameTaint compares all but the time at which a taint was added.
func sameTaint(a, b corev1.Taint) bool {
	return a.Key == b.Key && a.Value == b.Value && a.Effect == b.Effect
}

// validOf returns the part of a template that the API server accepts on a Node,
// so that one wrong entry does not keep the others, and what is wrong with the rest.
func validOf(t *infrav1.NodeTemplate) (*infrav1.NodeTemplate, []string) {
	var problems []string
	reject := func(field, entry string, errs []string) {
		problems = append(problems, fmt.Sprintf("spec.nodeTemplate.%s: %q does not reach the Node: %s; correct it in the template", field, entry, strings.Join(errs, ", ")))
	}
	out := &infrav1.NodeTemplate{Labels: map[string]string{}, Annotations: map[string]string{}}
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		if errs := append(validation.IsQualifiedName(key), validation.IsValidLabelValue(t.Labels[key])...); len(errs) > 0 {
			reject("labels", key, errs)
			continue
		}
		out.Labels[key] = t.Labels[key]
	}
	for _, key := range slices.Sorted(maps.Keys(t.Annotations)) {
		if errs := validation.IsQualifiedName(strings.ToLower(key)); len(errs) > 0 || key == machinev1.LastAppliedNodeTemplateAnnotation {
			reject("annotations", key, append(errs, "it may not be set"))
			continue
		}
		out.Annotations[key] = t.Annotations[key]
	}
	for _, taint := range t.Taints {
		if errs := wrongTaint(taint); len(errs) > 0 {
			reject("taints", taint.ToString(), errs)
			continue
		}
		if find(out.Taints, taint) < 0 {
			out.Taints = append(out.Taints, taint)
		}
	}
	return out, problems
}

func wrongTaint(t corev1.Taint) []string {
	errs := validation.IsQualifiedName(t.Key)
	if t.Value != "" {
		errs = append(errs, validation.IsValidLabelValue(t.Value)...)
	}
	switch t.Effect {
	case corev1.TaintEffectNoSchedule, corev1.TaintEffectPreferNoSchedule, corev1.TaintEffectNoExecute:
	default:
		errs = append(errs, "effect must be NoSchedule, PreferNoSchedule or NoExecute")
	}
	return errs
}

func join(problems []string) string { return strings.Join(problems, "; ") }
