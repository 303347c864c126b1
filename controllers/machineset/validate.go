package machineset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/cloud"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/safety/brake"
	"github.com/capmcm/cluster-api-provider-mcm/internal/naming"
)

// Check returns what a person has to correct in a MachineSet, as its controller reports it. A field
// with a warning is ignored; every other problem blocks all work on the set.
func Check(set *machinev1.MachineSet) []cloud.Problem {
	_, problems := validate(set)
	return problems
}

// blocks is a problem that blocks all work on the set.
func blocks(field, message string) cloud.Problem {
	return cloud.Problem{Severity: cloud.BlocksAll, Field: field, Message: message}
}

// validate returns the set's selector, nil if it cannot be used, and its problems. It
// accepts what MCM accepts, except for what makes MCM crash or create Machines without end.
func validate(set *machinev1.MachineSet) (labels.Selector, []cloud.Problem) {
	selector, problems := validateSelector(set)
	if set.Spec.Replicas < 0 {
		problems = append(problems, blocks("spec.replicas", "must not be negative"))
	}
	class := set.Spec.Template.Spec.Class
	if class.Kind == "" {
		problems = append(problems, blocks("spec.template.spec.class.kind", "must be set, to "+machinev1.MachineClassKind))
	}
	if class.Name == "" {
		problems = append(problems, blocks("spec.template.spec.class.name", "must name a MachineClass"))
	}
	problems = append(problems, validateTemplateMeta(&set.Spec.Template.ObjectMeta)...)
	return selector, append(problems, validateAnnotations(set)...)
}

func validateSelector(set *machinev1.MachineSet) (labels.Selector, []cloud.Problem) {
	wrong := func(message string) (labels.Selector, []cloud.Problem) {
		return nil, []cloud.Problem{blocks("spec.selector", message)}
	}
	if set.Spec.Selector == nil {
		return wrong("must be set, to labels that the template has")
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return wrong("cannot be used: " + err.Error())
	}
	if selector.Empty() {
		return wrong("must not be empty, because that selects every Machine; name labels that the template has")
	}
	if len(set.Spec.Template.Labels) == 0 {
		return nil, []cloud.Problem{blocks("spec.template.metadata.labels",
			"must not be empty; add what spec.selector asks for")}
	}
	if !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		return nil, []cloud.Problem{blocks("spec.template.metadata.labels",
			"must match spec.selector; add what it asks for, or correct it")}
	}
	return selector, nil
}

// validateTemplateMeta finds metadata that the API server would reject in every Machine.
func validateTemplateMeta(meta *metav1.ObjectMeta) []cloud.Problem {
	path := field.NewPath("spec", "template", "metadata")
	found := metavalidation.ValidateLabels(meta.Labels, path.Child("labels"))
	found = append(found, validation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))...)
	found = append(found, validation.ValidateFinalizers(meta.Finalizers, path.Child("finalizers"))...)
	problems := make([]cloud.Problem, len(found))
	for i, err := range found {
		problems[i] = blocks(err.Field, "correct it: "+err.ErrorBody())
	}
	return problems
}

// validateAnnotations finds annotations that cannot be parsed. They are ignored.
func validateAnnotations(set *machinev1.MachineSet) []cloud.Problem {
	readers := []struct {
		key   string
		want  string
		parse func(string) error
	}{
		{machinev1.EffectiveCreationTimeoutAnnotation, "must be a duration such as 20m", func(s string) error {
			_, err := time.ParseDuration(s)
			return err
		}},
		{machinev1.LastReplicaChangeByScalerAnnotation, "must be a time in RFC 3339", func(s string) error {
			_, err := time.Parse(time.RFC3339, s)
			return err
		}},
		{machinev1.MaxReplacementsAnnotation, "must be a number from 1, or 1% to 100%", func(s string) error {
			_, err := brake.ParseLimit(s)
			return err
		}},
		{machinev1.OrdinalsAnnotation, "is this controller's own record and was damaged; it is restored with the " +
			"next Machine", func(s string) error {
			_, err := naming.ParseOrdinals(s)
			return err
		}},
	}
	var problems []cloud.Problem
	for _, r := range readers {
		value, found := set.Annotations[r.key]
		if !found || r.parse(value) == nil {
			continue
		}
		problems = append(problems, cloud.Problem{
			Severity: cloud.Warning, Field: fmt.Sprintf("metadata.annotations[%s]", r.key),
			Message: r.want + "; it is ignored, correct or remove it",
		})
	}
	return problems
}

// invalid reports whether nothing is done until a person corrects the set.
func (s *scope) invalid() bool {
	return slices.ContainsFunc(s.problems, func(p cloud.Problem) bool { return p.Severity == cloud.BlocksAll })
}

// problemText returns the message about all problems; "" if there are none.
func (s *scope) problemText() string {
	texts := make([]string, len(s.problems))
	for i, found := range s.problems {
		texts[i] = found.String()
	}
	return strings.Join(texts, "; ")
}

// validateSpec emits an Event when the problems of the set have changed, and
// reports whether the set can be worked on.
func (c *Controller) validateSpec(s *scope) bool {
	text := s.problemText()
	if text != "" && text != s.memory.reportedProblems {
		c.Events.Event(s.set, corev1.EventTypeWarning, machinev1.ReasonInvalidSpec,
			message.Truncate(text, message.Limit))
	}
	s.memory.reportedProblems = text
	return !s.invalid()
}
