package machineset

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/message"
	"github.com/capmcm/cluster-api-provider-mcm/controllers/internal/permit"
	"github.com/capmcm/cluster-api-provider-mcm/naming"
)

// problem is what a person has to correct in a MachineSet.
type problem struct {
	field  string // path
	remedy string // what is wrong and what to do
	// ignored is true if the set works as if the field were absent.
	ignored bool
}

func (p problem) String() string { return p.field + ": " + p.remedy }

// Check passes what a person has to correct in a MachineSet to found, as its controller reports it.
// Without works, nothing is done before.
func Check(set *machinev1.MachineSet, found func(field, says string, works bool)) {
	_, problems := validate(set)
	for _, p := range problems {
		found(p.field, p.remedy, p.ignored)
	}
}

// validate returns the set's selector, nil if it cannot be used, and the problems
// of the set. It accepts what MCM accepts, except for what makes MCM crash or
// create Machines without end.
func validate(set *machinev1.MachineSet) (labels.Selector, []problem) {
	selector, problems := validateSelector(set)
	if set.Spec.Replicas < 0 {
		problems = append(problems, problem{field: "spec.replicas", remedy: "must not be negative"})
	}
	class := set.Spec.Template.Spec.Class
	if class.Kind == "" {
		problems = append(problems, problem{field: "spec.template.spec.class.kind", remedy: "must be set, to " +
			machinev1.MachineClassKind})
	}
	if class.Name == "" {
		problems = append(problems, problem{field: "spec.template.spec.class.name", remedy: "must name a MachineClass"})
	}
	problems = append(problems, validateTemplateMeta(&set.Spec.Template.ObjectMeta)...)
	return selector, append(problems, validateAnnotations(set)...)
}

func validateSelector(set *machinev1.MachineSet) (labels.Selector, []problem) {
	wrong := func(remedy string) (labels.Selector, []problem) {
		return nil, []problem{{field: "spec.selector", remedy: remedy}}
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
		return nil, []problem{{
			field:  "spec.template.metadata.labels",
			remedy: "must not be empty; add what spec.selector asks for",
		}}
	}
	if !selector.Matches(labels.Set(set.Spec.Template.Labels)) {
		return nil, []problem{{
			field:  "spec.template.metadata.labels",
			remedy: "must match spec.selector; add what it asks for, or correct it",
		}}
	}
	return selector, nil
}

// validateTemplateMeta finds metadata that the API server would reject in every Machine.
func validateTemplateMeta(meta *metav1.ObjectMeta) []problem {
	path := field.NewPath("spec", "template", "metadata")
	found := metavalidation.ValidateLabels(meta.Labels, path.Child("labels"))
	found = append(found, validation.ValidateAnnotations(meta.Annotations, path.Child("annotations"))...)
	found = append(found, validation.ValidateFinalizers(meta.Finalizers, path.Child("finalizers"))...)
	problems := make([]problem, len(found))
	for i, err := range found {
		problems[i] = problem{field: err.Field, remedy: "correct it: " + err.ErrorBody()}
	}
	return problems
}

// validateAnnotations finds annotations that cannot be parsed. They are ignored.
func validateAnnotations(set *machinev1.MachineSet) []problem {
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
			_, err := permit.ParseLimit(s)
			return err
		}},
		{machinev1.OrdinalsAnnotation, "is this controller's own record and was damaged; it is restored with the " +
			"next Machine", func(s string) error {
			_, err := naming.ParseOrdinals(s)
			return err
		}},
	}
	var problems []problem
	for _, r := range readers {
		value, found := set.Annotations[r.key]
		if !found || r.parse(value) == nil {
			continue
		}
		problems = append(problems, problem{
			field:   fmt.Sprintf("metadata.annotations[%s]", r.key),
			remedy:  r.want + "; it is ignored, correct or remove it",
			ignored: true,
		})
	}
	return problems
}

// invalid reports whether nothing is done until a person corrects the set.
func (s *scope) invalid() bool {
	for _, found := range s.problems {
		if !found.ignored {
			return true
		}
	}
	return false
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
