package nodetemplate

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

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
