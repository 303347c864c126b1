package machinedeployment

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/rollout"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
)

// maxNameLength is the maximum length of a deployment's name: sets append 6
// characters to it, and machines 6 more.
const maxNameLength = validation.DNS1123SubdomainMaxLength - 12

// maxQuoted is how many bytes of an annotation's value a message quotes.
const maxQuoted = 60

// textOf is what users read of a problem: the message goes on after the field.
func textOf(p cloud.Problem) string { return p.Field + " " + p.Message }

// blocks is a problem that blocks all work on the deployment, as fmt.Sprintf makes it.
func blocks(field, format string, args ...any) cloud.Problem {
	return cloud.Problem{Severity: cloud.BlocksAll, Field: field, Message: fmt.Sprintf(format, args...)}
}

// Check returns what a person has to correct in a MachineDeployment, as its controller reports it
// where there is a cluster with nodes. A field with a warning is ignored; every other problem blocks
// all work on the deployment.
func Check(d *machinev1.MachineDeployment) []cloud.Problem { return problemsOf(d, true) }

// validate finds the problems of the deployment; if none blocks it, it resolves
// selector and bounds.
func (s *scope) validate() {
	s.problems = problemsOf(s.d, s.Target != nil)
	s.invalid = slices.ContainsFunc(s.problems, func(x cloud.Problem) bool { return x.Severity == cloud.BlocksAll })
	if s.invalid {
		return
	}
	// The spec is valid, so neither can fail.
	s.selector, _ = metav1.LabelSelectorAsSelector(s.d.Spec.Selector)
	s.bounds, _ = rollout.BoundsOf(s.d)
}

// selectsAll reports whether the selector is {}.
func selectsAll(d *machinev1.MachineDeployment) bool {
	s := d.Spec.Selector
	return s != nil && len(s.MatchLabels) == 0 && len(s.MatchExpressions) == 0
}

// problemsOf returns the problems of d, warnings last. target is true if there
// is a cluster with nodes.
func problemsOf(d *machinev1.MachineDeployment, target bool) []cloud.Problem {
	return slices.Concat(selectorProblems(d), templateProblems(d), strategyProblems(d, target), annotationProblems(d))
}

func selectorProblems(d *machinev1.MachineDeployment) []cloud.Problem {
	var found []cloud.Problem
	if len(d.Name) > maxNameLength {
		found = append(found, blocks("metadata.name", "has %d characters: use at most %d, names of machines are longer",
			len(d.Name), maxNameLength))
	}
	if d.Spec.Replicas < 0 {
		found = append(found, blocks("spec.replicas", "is %d: set it to 0 or more", d.Spec.Replicas))
	}
	if d.Spec.Selector == nil {
		return append(found, blocks("spec.selector", "is missing: select labels that spec.template.metadata.labels has"))
	}
	if selectsAll(d) {
		return append(found, blocks("spec.selector", "is empty and would select all machines: select labels that "+
			"spec.template.metadata.labels has"))
	}
	selector, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return append(found, blocks("spec.selector", "is invalid, correct it: %v", err))
	}
	if !selector.Matches(labels.Set(d.Spec.Template.Labels)) {
		found = append(found, blocks("spec.selector", "%q does not match spec.template.metadata.labels: add the "+
			"labels there", selector))
	}
	return found
}

func templateProblems(d *machinev1.MachineDeployment) []cloud.Problem {
	var found []cloud.Problem
	class := d.Spec.Template.Spec.Class
	if class.Name == "" {
		found = append(found, blocks("spec.template.spec.class.name", "is missing: name a MachineClass"))
	}
	if class.Kind == "" {
		found = append(found, blocks("spec.template.spec.class.kind", "is missing: set it to MachineClass"))
	}
	return found
}

func strategyProblems(d *machinev1.MachineDeployment, target bool) []cloud.Problem {
	strategy := d.Spec.Strategy
	switch strategy.Type {
	case machinev1.RecreateStrategyType:
		return nil
	case machinev1.RollingUpdateStrategyType:
		if strategy.RollingUpdate == nil {
			return []cloud.Problem{blocks("spec.strategy.rollingUpdate", "is missing: give it maxSurge and maxUnavailable")}
		}
		return boundProblems("spec.strategy.rollingUpdate", strategy.RollingUpdate.UpdateConfiguration)
	case machinev1.InPlaceUpdateStrategyType:
		return inPlaceProblems(strategy.InPlaceUpdate, target)
	}
	return []cloud.Problem{blocks("spec.strategy.type", "is %q: set it to RollingUpdate, Recreate or InPlaceUpdate",
		strategy.Type)}
}

func inPlaceProblems(update *machinev1.InPlaceUpdateMachineDeployment, target bool) []cloud.Problem {
	if update == nil {
		return []cloud.Problem{blocks("spec.strategy.inPlaceUpdate",
			"is missing: give it maxSurge, maxUnavailable and orchestrationType")}
	}
	found := boundProblems("spec.strategy.inPlaceUpdate", update.UpdateConfiguration)
	if o := update.OrchestrationType; o != machinev1.OrchestrationTypeAuto && o != machinev1.OrchestrationTypeManual {
		found = append(found, blocks("spec.strategy.inPlaceUpdate.orchestrationType", "is %q: set it to Auto or Manual", o))
	}
	if !target {
		found = append(found, blocks("spec.strategy.type", "InPlaceUpdate needs a target cluster: use RollingUpdate, "+
			"or start the manager with --target-kubeconfig"))
	}
	return found
}

func boundProblems(path string, c machinev1.UpdateConfiguration) []cloud.Problem {
	var found []cloud.Problem
	for name, value := range map[string]*intstr.IntOrString{"maxSurge": c.MaxSurge, "maxUnavailable": c.MaxUnavailable} {
		if _, err := rollout.ResolveIntOrPercent(name, value, 1, true); err != nil {
			found = append(found, blocks(path+"."+name, "%s: set it to a number or a percentage, 0 or more",
				strings.TrimPrefix(err.Error(), name+" ")))
		}
	}
	slices.SortFunc(found, func(a, b cloud.Problem) int { return strings.Compare(a.Field, b.Field) })
	return found
}

// annotationProblems are about annotations that are read here or copied from here
// to the machines. Annotations that cannot be parsed are ignored.
func annotationProblems(d *machinev1.MachineDeployment) []cloud.Problem {
	var found []cloud.Problem
	wrong := func(path string, annotations map[string]string, key, remedy string, ok func(string) bool) {
		if value, set := annotations[key]; set && !ok(value) {
			says := fmt.Sprintf("%q is ignored: %s", message.Truncate(value, maxQuoted), remedy)
			found = append(found, cloud.Problem{Severity: cloud.Warning, Field: path + " " + key, Message: says})
		}
	}
	own, template := "annotation", "annotation of spec.template"
	wrong(own, d.Annotations, machinev1.LastReplicaChangeByScalerAnnotation,
		"set it to a time such as 2006-01-02T15:04:05Z", isTime)
	wrong(own, d.Annotations, machinev1.EffectiveCreationTimeoutAnnotation, "set it to a duration such as 20m", isDuration)
	wrong(own, d.Annotations, machinev1.ProviderIDFormAnnotation, `set it to "node" or remove it`, func(v string) bool {
		return v == machinev1.ProviderIDFormNode
	})
	wrong(own, d.Annotations, machinev1.MaxReplacementsAnnotation,
		"set it to a number from 1 or a percentage from 1% to 100%", isReplacementLimit)
	wrong(own, d.Annotations, machinev1.SurgeFallbackAnnotation, `set it to "true" or remove it`, func(v string) bool {
		return v == "true"
	})
	wrong(template, d.Spec.Template.Annotations, machinev1.PriorityAnnotation, "set it to a number", isNumber)
	return found
}

func isTime(value string) bool {
	_, err := time.Parse(time.RFC3339, value)
	return err == nil
}

func isDuration(value string) bool {
	d, err := time.ParseDuration(value)
	return err == nil && d > 0
}

func isReplacementLimit(value string) bool {
	_, err := brake.ParseLimit(value)
	return err == nil
}

func isNumber(value string) bool {
	_, err := strconv.Atoi(value)
	return err == nil
}
