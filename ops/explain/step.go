package explain

import (
	"cmp"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StepState is how far a step is.
type StepState string

// The states of a step.
const (
	StepDone    StepState = "Done"
	StepMissing StepState = "Missing"
	StepLater   StepState = "Later" // a step before it is missing
)

// Step is a part of what was asked for.
type Step struct {
	Name    string       `json:"name"`
	State   StepState    `json:"state"`
	Object  Ref          `json:"object"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
	Since   *metav1.Time `json:"since,omitempty"`

	finding *Finding
}

// chain builds the steps of an object. After the first step that is missing all others are
// for later.
type chain struct {
	facts *Facts
	steps []Step
}

// done adds a step that is complete, unless an earlier one is missing.
func (c *chain) done(name string, o *Object, message string, since time.Time) {
	state := StepDone
	if c.missing() != nil {
		state, message, since = StepLater, "", time.Time{}
	}
	c.steps = append(c.steps, Step{Name: name, State: state, Object: o.Ref, Message: message, Since: at(since)})
}

// lacks adds a step that is missing for the reason of a condition.
func (c *chain) lacks(name string, o *Object, cond Condition) {
	if c.missing() != nil {
		c.steps = append(c.steps, Step{Name: name, State: StepLater, Object: o.Ref})
		return
	}
	f := c.facts.judge(o, cond)
	c.lacksFinding(name, f)
}

// lacksFinding adds a step that is missing for a reason that is already judged.
func (c *chain) lacksFinding(name string, f *Finding) {
	state := StepMissing
	if c.missing() != nil && !f.beside {
		state = StepLater
	}
	c.steps = append(c.steps, Step{
		Name: name, State: state, Object: f.Object, Reason: f.Reason, Message: f.Message, Since: f.Since, finding: f,
	})
}

// lacksBeside adds a step that is missing and that no other step waits for.
func (c *chain) lacksBeside(name string, o *Object, cond Condition) {
	f := c.facts.judge(o, cond)
	f.beside = true
	c.lacksFinding(name, f)
}

// must adds a step for a condition that should be True: it is missing while it is not.
func (c *chain) must(name string, o *Object, kind string) {
	cond := o.condition(kind)
	switch {
	case cond == nil:
		c.lacks(name, o, Condition{
			Type: kind, Reason: reasonNotObserved, Since: o.Created,
			Message: "condition " + kind + " of " + o.Kind + " " + o.Name + " has not been written yet",
		})
	case cond.Status == metav1.ConditionTrue:
		c.done(name, o, cmp.Or(cond.Message, cond.Reason), cond.Since)
	default:
		c.lacks(name, o, *cond)
	}
}

// mustNot adds a step only where one of these conditions is True: something holds the object.
func (c *chain) mustNot(o *Object, kinds ...string) {
	for _, kind := range kinds {
		if cond := o.condition(kind); cond != nil && cond.Status == metav1.ConditionTrue {
			c.lacks(stepHold, o, c.facts.pauseOf(o, *cond))
			return
		}
	}
}

// missing is the first step that is missing and that others wait for; nil if there is none.
func (c *chain) missing() *Step { return c.first(false) }

// first is the first step that is missing, of those beside the others or of the others.
func (c *chain) first(beside bool) *Step {
	for i := range c.steps {
		if c.steps[i].State == StepMissing && c.steps[i].finding.beside == beside {
			return &c.steps[i]
		}
	}
	return nil
}

func at(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	out := metav1.NewTime(t.UTC())
	return &out
}
