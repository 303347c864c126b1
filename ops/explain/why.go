package explain

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"

	machinev1 "github.com/capmcm/cluster-api-provider-mcm/api/machine/v1alpha1"
)

// Version of what kubectl mcm prints as JSON or YAML. Fields are added, never renamed.
const Version = "cli." + machinev1.OurPrefix + "v1alpha1"

// Explanation is why an object is as it is.
type Explanation struct {
	metav1.TypeMeta `json:",inline"`
	Object          Ref          `json:"object"`
	API             API          `json:"api"`
	Phase           string       `json:"phase,omitempty"`
	Created         *metav1.Time `json:"created,omitempty"`
	Steps           []Step       `json:"steps"`
	// Missing is the first thing that is missing; nil if nothing is.
	Missing *Finding `json:"missing,omitempty"`
	// Consoles are what the consoles of machines said that did not join, the newest first: of a
	// machine its own or those of its pool before it.
	Consoles []Console `json:"consoles,omitempty"`
	// Unread is what could not be read, so that it is not considered.
	Unread []string `json:"unread,omitempty"`
}

// Why explains an object of either API.
func (f *Facts) Why(o *Object) Explanation {
	c := &chain{facts: f}
	c.of(o)
	out := Explanation{
		TypeMeta: metav1.TypeMeta{APIVersion: Version, Kind: "Explanation"}, Object: o.Ref, API: o.API, Phase: f.status(o),
		Created: at(o.Created), Steps: c.steps, Unread: f.Unread,
	}
	if missing := cmp.Or(c.missing(), c.first(true)); missing != nil {
		out.Missing, out.Consoles = missing.finding, f.consoles(o)
	}
	return out
}

// of adds the steps of an object. An MCMMachine is explained as a part of its Machine.
func (c *chain) of(o *Object) {
	owner := c.facts.owner(o)
	switch o.Kind {
	case KindMachine:
		c.machine(o)
	case KindSet, KindDeployment:
		c.pool(o)
	case KindCluster:
		c.cluster(o)
	case KindMCMMachine:
		if owner != nil && owner.Kind == KindMachine {
			c.machine(owner)
			return
		}
		fallthrough
	default:
		c.done(stepAsked, o, o.Kind+" "+o.Name, o.Created)
		c.mustNot(o, conditionPaused)
		c.must("ready", o, clusterv1.ReadyCondition)
	}
}

// machine adds the steps of a Machine of either API.
func (c *chain) machine(o *Object) {
	if o.API == Native {
		c.nativeMachine(o)
		return
	}
	c.capiMachine(o)
}

// status is the phase of an object, for people.
func (f *Facts) status(o *Object) string {
	switch {
	case o.Deleting != nil:
		return "Terminating"
	case o.Phase != "":
		return o.Phase
	case o.Kind == KindMachine:
		return "Creating"
	}
	return ""
}
