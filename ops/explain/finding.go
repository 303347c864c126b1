package explain

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
)

// Reasons that no controller writes: they follow from several objects, or from the absence
// of a condition.
const (
	reasonNotObserved  = "NotObserved"
	reasonCreateFailed = "CreateFailed"
	reasonTerminating  = "Terminating"
	reasonNotRolledOut = "TemplateNotRolledOut"
	reasonTokenExpired = "BootstrapTokenExpired"
	reasonOtherName    = "NodeOfAnotherName"
	reasonNotApproved  = "NodeNotApproved"
	reasonTargetError  = "TargetNotReadable"
	reasonMigration    = "PausedForMigration"
)

// Finding is the first thing that an object lacks.
type Finding struct {
	Object    Ref          `json:"object"`
	Condition string       `json:"condition,omitempty"`
	Reason    string       `json:"reason"`
	Message   string       `json:"message,omitempty"`
	Since     *metav1.Time `json:"since,omitempty"`
	Concern   Concern      `json:"concern"`
	// NeedsPerson is true if it does not end before a person has acted.
	NeedsPerson bool     `json:"needsPerson"`
	Meaning     string   `json:"meaning"`
	Remedy      string   `json:"remedy"`
	Commands    []string `json:"commands,omitempty"`
	Next        string   `json:"next"`
	// NextTime is when that happens at the latest, if it is known.
	NextTime *metav1.Time `json:"nextTime,omitempty"`

	beside bool // no other step waits for it
}

// judge finds out what a condition of o means.
func (f *Facts) judge(o *Object, c Condition) *Finding {
	row := rowOf(c.Type, c.Reason)
	found := &Finding{
		Object: o.Ref, Condition: c.Type, Reason: c.Reason, Message: c.Message, Since: at(c.Since), Concern: row.Concern,
		NeedsPerson: row.Person, Meaning: row.Meaning, Remedy: row.Remedy, Next: row.Next,
	}
	if row.Concern == Capacity && quota.MatchString(c.Message) {
		found.Concern, found.Meaning = Quota, "the account's quota is used up"
		found.Remedy, found.NeedsPerson = "raise the quota, delete what uses it, or use another type", true
	}
	fill := f.replacer(o)
	for _, command := range row.Commands {
		found.Commands = append(found.Commands, fill.Replace(command))
	}
	if limit, exact := f.deadline(o, row.Clock); !limit.IsZero() {
		found.NextTime = at(limit)
		if !exact {
			found.Next += ", unless the manager's flag for it is not the default"
		}
	}
	return found
}

// quota matches what clouds say when the account may not have more, as opposed to the cloud.
var quota = regexp.MustCompile(`(?i)quota|limit ?exceeded|exceeds? .*limit|may have no more`)

// replacer fills the placeholders of commands in. What is not known stays a word to replace.
func (f *Facts) replacer(o *Object) *strings.Replacer {
	known := func(value, placeholder string) string {
		if value == "" {
			return placeholder
		}
		return value
	}
	machine := ""
	for part := o; part != nil && machine == ""; part = f.owner(part) {
		if part.Kind == KindMachine {
			machine = part.Name
		}
	}
	return strings.NewReplacer(
		"{namespace}", known(o.Namespace, "NAMESPACE"), "{object}", resource(o.Ref), "{class}", known(o.Class, "CLASS"),
		"{node}", known(o.Node, "NODE"), "{pool}", known(o.Pool, "POOL"), "{cluster}", known(o.Cluster, "CLUSTER"),
		"{machine}", known(machine, "MACHINE"), "{secret}", f.secret(o, true), "{userdata}", f.secret(o, false),
	)
}

// secret is the Secret of an object's class for a command line: that with the credentials, or
// that with the boot data.
func (f *Facts) secret(o *Object, credentials bool) string {
	name, namespace := "SECRET", o.Namespace
	if class := f.named(KindClass, o.Namespace, o.Class); class != nil {
		ref := class.Boot
		if credentials && class.Credentials.Name != "" {
			ref = class.Credentials
		}
		name, namespace = cmp.Or(ref.Name, name), cmp.Or(ref.Namespace, namespace)
	}
	return name + " -n " + namespace
}

// resource is an object for a command line. The plural form works for every kind here.
func resource(r Ref) string {
	group, _, _ := strings.Cut(r.APIVersion, "/")
	return strings.ToLower(r.Kind) + "s." + group + "/" + r.Name
}

// Defaults of the manager's flags, for machines without timeouts of their own.
const (
	defaultCreation = 20 * time.Minute
	defaultHealth   = 10 * time.Minute
	defaultDrain    = 2 * time.Hour
)

// deadline is when a clock ends, zero if it does not run. exact is false if it follows from
// the default of a flag, which the manager may have another value of.
func (f *Facts) deadline(o *Object, clock deadline) (end time.Time, exact bool) {
	if o.API != Native || o.Kind != KindMachine {
		return time.Time{}, true // Cluster API's health checks have clocks of their own
	}
	begin, own, fallback := o.Created, o.Creation, defaultCreation
	switch {
	case clock == healthDeadline && o.Phase == "Unknown":
		begin, own, fallback = o.PhaseSince, o.Health, defaultHealth
	case clock == drainDeadline && o.Deleting != nil:
		begin, own, fallback = *o.Deleting, o.Drain, defaultDrain
	case clock != creationDeadline:
		return time.Time{}, true
	}
	if own != nil {
		return begin.Add(*own), true
	}
	return begin.Add(fallback), false
}

// When is the time of a deadline for people, relative to now.
func (f *Finding) When(now time.Time) string {
	if f.NextTime == nil {
		return ""
	}
	left := f.NextTime.Sub(now)
	text := f.NextTime.UTC().Format(time.RFC3339)
	if left <= 0 {
		return fmt.Sprintf("%s, %s ago", text, duration.HumanDuration(-left))
	}
	return fmt.Sprintf("%s, in %s", text, duration.HumanDuration(left))
}
